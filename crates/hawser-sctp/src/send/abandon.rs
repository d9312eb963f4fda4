//! Partial reliability: messages that may be abandoned before they arrive. Source: RFC 3758, RFC
//! 8260 §2.3.

use std::collections::{BTreeMap, BTreeSet};

use hawser_types::Instant;
use hawser_wire::sctp::{DataOrder, ForwardTsn, SkippedStream, StreamNumber};
use smallvec::SmallVec;

use super::window::{Status, Window};
use super::{Outbound, Reliability};
use crate::Event;
use crate::path::Paths;

/// Identifier of a message that may be abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageId(u64);

/// The messages that may be abandoned, and the reports to the peer.
#[derive(Debug)]
pub(super) struct Abandon {
    messages: BTreeMap<MessageId, Limited>,
    deadlines: BTreeSet<(Instant, MessageId)>,
    next: MessageId,
    /// Partial reliability is negotiated: messages sent in part can be abandoned, not only waiting
    /// ones.
    agreed: bool,
    /// Advanced.Peer.Ack.Point: every chunk before it is acknowledged or abandoned.
    point: u64,
    due: bool,
    sent_at: Instant,
}

#[derive(Debug)]
struct Limited {
    stream: StreamNumber,
    until: Option<Instant>,
    retransmissions: Option<u32>,
    /// Chunks of the message that were sent.
    chunks: SmallVec<[u64; 2]>,
    /// The last chunk was sent.
    cut: bool,
}

impl Abandon {
    pub(super) fn new(agreed: bool) -> Self {
        Self {
            messages: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: MessageId::default(),
            agreed,
            point: 0,
            due: false,
            sent_at: Instant::ZERO,
        }
    }

    /// Registers a message; `None` if it is never abandoned.
    pub(super) fn add(
        &mut self,
        now: Instant,
        stream: StreamNumber,
        reliability: Reliability,
    ) -> Option<MessageId> {
        let (until, retransmissions) = match reliability {
            Reliability::Full => return None,
            Reliability::Until(at) => (Some(at), None),
            Reliability::Lifetime(span) => (Some(now + span), None),
            Reliability::Retransmissions(count) => (None, Some(count)),
        };
        let id = self.next;
        self.next = MessageId(id.0 + 1);
        self.deadlines.extend(until.map(|at| (at, id)));
        let limited = Limited {
            stream,
            until,
            retransmissions,
            chunks: SmallVec::new(),
            cut: false,
        };
        self.messages.insert(id, limited);
        Some(id)
    }

    /// Registers a chunk of the message; returns whether the message can still be abandoned.
    pub(super) fn on_cut(&mut self, id: MessageId, chunk: u64, last: bool) -> bool {
        if !self.agreed {
            self.forget(id);
            return false;
        }
        let Some(message) = self.messages.get_mut(&id) else {
            return false;
        };
        message.chunks.push(chunk);
        message.cut |= last;
        true
    }

    /// Forgets a message that has arrived or can no longer be abandoned.
    pub(super) fn forget(&mut self, id: MessageId) -> Option<StreamNumber> {
        let message = self.messages.remove(&id)?;
        if let Some(at) = message.until {
            self.deadlines.remove(&(at, id));
        }
        Some(message.stream)
    }

    /// Tells whether the loss of a chunk after this many transmissions abandons the message.
    pub(super) fn is_spent(&self, id: MessageId, send_count: u32) -> bool {
        let most = self.messages.get(&id).and_then(|m| m.retransmissions);
        most.is_some_and(|most| send_count > most)
    }

    /// Returns when the next message expires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Advances the point over abandoned chunks.
    fn advance(&mut self, window: &Window) {
        let before = self.point;
        self.point = before.max(window.first());
        while window
            .get(self.point)
            .is_some_and(|record| record.status == Status::Abandoned)
        {
            self.point += 1;
        }
        self.due |= self.point > before && self.is_unconfirmed(window);
    }

    /// Tells whether the peer has not confirmed the point yet.
    pub(super) fn is_unconfirmed(&self, window: &Window) -> bool {
        self.point > window.first()
    }

    /// Returns when FORWARD-TSN is repeated.
    pub(super) fn repeat_at(&self, window: &Window, paths: &Paths) -> Option<Instant> {
        if self.due || !self.is_unconfirmed(window) {
            return None;
        }
        let best = paths.path(paths.best(self.sent_at)?)?;
        Some(self.sent_at + best.rtt.rto())
    }
}

impl Outbound {
    /// Tells whether [`Self::poll_forward_tsn`] may have a chunk.
    pub(crate) fn is_forward_tsn_due(&self) -> bool {
        self.abandon.due
    }

    /// Returns the FORWARD-TSN that is due.
    pub(crate) fn poll_forward_tsn(&mut self, now: Instant) -> Option<ForwardTsn> {
        if !std::mem::take(&mut self.abandon.due) || !self.abandon.is_unconfirmed(&self.window) {
            return None;
        }
        self.abandon.sent_at = now;
        let mut skipped: BTreeMap<(StreamNumber, bool), u32> = BTreeMap::new();
        let mut end = self.window.first();
        while let Some(record) = self.window.get(end).filter(|_| end < self.abandon.point) {
            let data = &record.data;
            let interleaved = matches!(data.order, DataOrder::Interleaved { .. });
            // FORWARD-TSN lists no unordered messages, and need not.
            if interleaved || !data.unordered {
                let key = (data.stream, data.unordered);
                if skipped.len() == MAX_SKIPPED && !skipped.contains_key(&key) {
                    break;
                }
                skipped.insert(key, last_of(data.order));
            }
            end += 1;
        }
        if end < self.abandon.point {
            // The rest follows once the peer has acknowledged these.
            self.abandon.point = end;
        }
        let skipped = skipped
            .into_iter()
            .map(|((stream, unordered), last)| SkippedStream {
                stream,
                unordered,
                last,
            });
        Some(ForwardTsn {
            cumulative: self.window.tsn(end.wrapping_sub(1)),
            interleaved: self.queue.is_interleaving(),
            skipped: skipped.collect(),
        })
    }

    /// Abandons messages whose time is over.
    pub(super) fn expire(&mut self, now: Instant, paths: &mut Paths) {
        while let Some((at, id)) = self.abandon.deadlines.first().copied() {
            if at > now {
                return;
            }
            self.give_up(id, paths);
        }
    }

    /// Abandons a message: its waiting part, and its chunks sent.
    pub(super) fn give_up(&mut self, id: MessageId, paths: &mut Paths) {
        let Some(message) = self.abandon.messages.get(&id) else {
            return;
        };
        let (stream, chunks) = (message.stream, message.chunks.clone());
        let arrived = |chunk: &u64| {
            let record = self.window.get(*chunk);
            record.is_none_or(|record| record.status == Status::Ack)
        };
        let has_arrived = message.cut && chunks.iter().all(arrived);
        self.abandon.forget(id);
        if has_arrived {
            return;
        }
        let end = self.queue.drop_message(stream, id);
        let end = end.map(|end| self.window.push(end, None));
        for chunk in chunks.into_iter().chain(end) {
            let Some(record) = self.window.get_mut(chunk) else {
                continue;
            };
            let size = record.size();
            for transmission in std::mem::take(&mut record.in_flight) {
                if let Some(path) = paths.path_mut(transmission.path) {
                    path.flight.forget(transmission.packet, size);
                }
            }
            self.window.set_status(chunk, Status::Abandoned);
        }
        self.abandon.advance(&self.window);
        self.events.push_back(Event::Abandoned(stream));
        self.note_room();
    }

    /// Advances the point after the window has moved.
    pub(super) fn advance_abandoned(&mut self) {
        self.abandon.advance(&self.window);
    }

    /// Repeats FORWARD-TSN if the peer has not confirmed it in time.
    pub(super) fn repeat_forward_tsn(&mut self, now: Instant, paths: &Paths) {
        let at = self.abandon.repeat_at(&self.window, paths);
        self.abandon.due |= at.is_some_and(|at| at <= now);
    }
}

/// Returns the message number that FORWARD-TSN lists.
fn last_of(order: DataOrder) -> u32 {
    match order {
        DataOrder::Sequence(number) => number.into(),
        DataOrder::Interleaved { message, .. } => message,
    }
}

/// Maximum number of streams in a FORWARD-TSN: eight bytes each, they fit the smallest packet.
const MAX_SKIPPED: usize = 128;
