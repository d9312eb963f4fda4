//! Partial reliability: messages that may be abandoned before they arrive. Source: RFC 3758, RFC
//! 8260 §2.3.

use std::collections::{BTreeMap, BTreeSet};

use hawser_types::Instant;
use hawser_wire::sctp::{DataOrder, ForwardTsn, SkippedStream, StreamNumber};
use smallvec::SmallVec;

use super::message::{MessageId, Reliability};
use super::queue::Queue;
use super::window::{Status, Window};
use crate::path::Paths;

/// The messages that may be abandoned, and the reports to the peer.
#[derive(Debug)]
pub(super) struct Abandon {
    messages: BTreeMap<MessageId, Limited>,
    deadlines: BTreeSet<(Instant, MessageId)>,
    next: MessageId,
    /// Partial reliability is negotiated: messages sent in part can be abandoned, not only waiting
    /// ones.
    agreed: bool,
    /// The peer keeps what it has acknowledged, so that the point may pass over it.
    keeps: bool,
    /// Advanced.Peer.Ack.Point: every chunk before it is acknowledged or abandoned.
    point: u64,
    /// Everything from the point to here is acknowledged.
    seen: u64,
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
    /// `agreed`: partial reliability was negotiated. `keeps`: the peer never drops what it has
    /// acknowledged.
    pub(super) fn new(agreed: bool, keeps: bool) -> Self {
        Self {
            messages: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next: MessageId::default(),
            agreed,
            keeps,
            point: 0,
            seen: 0,
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
        self.next = id.next();
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
    pub(super) fn forget(&mut self, id: MessageId) {
        self.remove(id);
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

    /// Returns the message that expired first; the same one until it is abandoned or forgotten.
    pub(super) fn expired(&self, now: Instant) -> Option<MessageId> {
        let (at, id) = self.deadlines.first()?;
        (*at <= now).then_some(*id)
    }

    /// Abandons a message: its waiting part, and its chunks sent. Returns its stream; `None` if it
    /// has arrived.
    pub(super) fn give_up(
        &mut self,
        id: MessageId,
        queue: &mut Queue,
        window: &mut Window,
        paths: &mut Paths,
    ) -> Option<StreamNumber> {
        let Limited {
            stream,
            chunks,
            cut,
            ..
        } = self.remove(id)?;
        let arrived = |chunk: &u64| {
            let record = window.get(*chunk);
            record.is_none_or(|record| record.status == Status::Ack)
        };
        if cut && chunks.iter().all(arrived) {
            return None;
        }
        let end = queue.drop_message(stream, id);
        let end = end.map(|end| window.push(end, None));
        for chunk in chunks.into_iter().chain(end) {
            let Some(record) = window.get_mut(chunk) else {
                continue;
            };
            let size = record.size();
            for transmission in std::mem::take(&mut record.in_flight) {
                if let Some(path) = paths.path_mut(transmission.path) {
                    path.flight.forget(transmission.packet, size);
                }
            }
            window.set_status(chunk, Status::Abandoned);
        }
        self.advance(window);
        Some(stream)
    }

    /// Tells whether [`Self::poll_forward_tsn`] may have a chunk.
    pub(super) fn is_forward_tsn_due(&self) -> bool {
        self.due
    }

    /// Returns the FORWARD-TSN that is due. `interleaved`: messages are sent as I-DATA.
    pub(super) fn poll_forward_tsn(
        &mut self,
        now: Instant,
        window: &Window,
        interleaved: bool,
    ) -> Option<ForwardTsn> {
        if !std::mem::take(&mut self.due) || !self.is_unconfirmed(window) {
            return None;
        }
        self.sent_at = now;
        let mut skipped: BTreeMap<(StreamNumber, bool), u32> = BTreeMap::new();
        let mut end = window.first();
        while let Some(record) = window.get(end).filter(|_| end < self.point) {
            let data = &record.data;
            if record.status != Status::Abandoned {
                end += 1;
                continue;
            }
            let (has_number, last) = match data.order {
                DataOrder::Sequence(number) => (false, number.into()),
                DataOrder::Interleaved { message, .. } => (true, message),
            };
            // FORWARD-TSN lists no unordered messages, and need not.
            if has_number || !data.unordered {
                let key = (data.stream, data.unordered);
                if skipped.len() == MAX_SKIPPED && !skipped.contains_key(&key) {
                    break;
                }
                skipped.insert(key, last);
            }
            end += 1;
        }
        if end < self.point {
            // The rest follows once the peer has acknowledged these.
            self.point = end;
        }
        let skipped = skipped
            .into_iter()
            .map(|((stream, unordered), last)| SkippedStream {
                stream,
                unordered,
                last,
            });
        Some(ForwardTsn {
            cumulative: window.tsn(end.wrapping_sub(1)),
            interleaved,
            skipped: skipped.collect(),
        })
    }

    /// Repeats FORWARD-TSN if the peer has not confirmed it in time.
    pub(super) fn repeat_forward_tsn(&mut self, now: Instant, window: &Window, paths: &Paths) {
        let at = self.repeat_at(window, paths);
        self.due |= at.is_some_and(|at| at <= now);
    }

    /// Advances the point over abandoned chunks, and over acknowledged ones between them: a peer
    /// that hears of one hole after the other would need a round trip for each.
    pub(super) fn advance(&mut self, window: &Window) {
        let before = self.point;
        self.point = before.max(window.first());
        let mut end = if self.keeps {
            self.seen.max(self.point)
        } else {
            self.point
        };
        while let Some(record) = window.get(end) {
            match record.status {
                Status::Abandoned => self.point = end + 1,
                Status::Ack if self.keeps => {}
                _ => break,
            }
            end += 1;
        }
        self.seen = end;
        self.due |= self.point > before && self.is_unconfirmed(window);
    }

    /// Tells whether the peer has not confirmed the point yet.
    fn is_unconfirmed(&self, window: &Window) -> bool {
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

    fn remove(&mut self, id: MessageId) -> Option<Limited> {
        let message = self.messages.remove(&id)?;
        if let Some(at) = message.until {
            self.deadlines.remove(&(at, id));
        }
        Some(message)
    }
}

/// Maximum number of streams in a FORWARD-TSN: eight bytes each, they fit the smallest packet.
const MAX_SKIPPED: usize = 128;
