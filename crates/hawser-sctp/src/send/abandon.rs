//! Messages that may be given up before they have arrived. Source: RFC 3758, RFC 8260 §2.3.

use std::collections::{BTreeMap, BTreeSet};

use hawser_types::Instant;
use hawser_wire::sctp::{DataOrder, ForwardTsn, SkippedStream, StreamNumber};
use smallvec::SmallVec;

use super::window::{Status, Window};
use super::{Outbound, Reliability};
use crate::Event;
use crate::path::Paths;

/// Names a message that may be given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageId(u64);

/// The messages that may be given up, and what the peer is told of those that were.
#[derive(Debug)]
pub(super) struct Abandon {
    messages: BTreeMap<MessageId, Limited>,
    deadlines: BTreeSet<(Instant, MessageId)>,
    next: MessageId,
    /// The peer has agreed: what was sent can be given up too, not only what still waits.
    agreed: bool,
    /// Advanced.Peer.Ack.Point: every chunk before it is acknowledged or given up.
    point: u64,
    due: bool,
    told_at: Instant,
}

#[derive(Debug)]
struct Limited {
    stream: StreamNumber,
    until: Option<Instant>,
    retransmissions: Option<u32>,
    /// Its chunks that were sent.
    chunks: SmallVec<[u64; 2]>,
    /// All of it was.
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
            told_at: Instant::ZERO,
        }
    }

    /// A message is taken in; `None` where it is never given up.
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

    /// A part of the message is sent as this chunk; whether it can still be given up then.
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

    /// All of it has arrived, or nothing keeps it from being sent to the end.
    pub(super) fn forget(&mut self, id: MessageId) -> Option<StreamNumber> {
        let message = self.messages.remove(&id)?;
        if let Some(at) = message.until {
            self.deadlines.remove(&(at, id));
        }
        Some(message.stream)
    }

    /// Whether it is given up when a chunk of it, sent so often, has been lost.
    pub(super) fn is_spent(&self, id: MessageId, transmissions: u32) -> bool {
        let most = self.messages.get(&id).and_then(|m| m.retransmissions);
        most.is_some_and(|most| transmissions > most)
    }

    /// When the next message is given up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Moves the point over what was given up.
    fn advance(&mut self, window: &Window) {
        let before = self.point;
        self.point = before.max(window.first());
        while window
            .get(self.point)
            .is_some_and(|record| record.status == Status::Abandoned)
        {
            self.point += 1;
        }
        self.due |= self.point > before && self.is_ahead(window);
    }

    /// Whether the peer has still to be told, or to say that it has heard.
    pub(super) fn is_ahead(&self, window: &Window) -> bool {
        self.point > window.first()
    }

    /// When it is told once more.
    pub(super) fn told_again_at(&self, window: &Window, paths: &Paths) -> Option<Instant> {
        if self.due || !self.is_ahead(window) {
            return None;
        }
        let best = paths.path(paths.best(self.told_at)?)?;
        Some(self.told_at + best.rtt.rto())
    }
}

impl Outbound {
    /// Whether [`Self::poll_forward_tsn`] may have one.
    pub(crate) fn is_forward_tsn_due(&self) -> bool {
        self.abandon.due
    }

    /// What the peer has to be told was given up, if that is due.
    pub(crate) fn poll_forward_tsn(&mut self, now: Instant) -> Option<ForwardTsn> {
        if !std::mem::take(&mut self.abandon.due) || !self.abandon.is_ahead(&self.window) {
            return None;
        }
        self.abandon.told_at = now;
        let mut skipped: BTreeMap<(StreamNumber, bool), u32> = BTreeMap::new();
        let mut end = self.window.first();
        while let Some(record) = self.window.get(end).filter(|_| end < self.abandon.point) {
            let data = &record.data;
            let interleaved = matches!(data.order, DataOrder::Interleaved { .. });
            // FORWARD-TSN has no room for unordered messages, and needs none.
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
            // The rest is told once the peer has acknowledged these.
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

    /// Gives up what has outlived its time.
    pub(super) fn expire(&mut self, now: Instant, paths: &mut Paths) {
        while let Some((at, id)) = self.abandon.deadlines.first().copied() {
            if at > now {
                return;
            }
            self.give_up(id, paths);
        }
    }

    /// Gives up a message: what waits of it, and what was sent.
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
            for place in std::mem::take(&mut record.places) {
                if let Some(path) = paths.path_mut(place.path) {
                    path.flight.forget(place.packet, size);
                }
            }
            self.window.set_status(chunk, Status::Abandoned);
        }
        self.abandon.advance(&self.window);
        self.events.push_back(Event::Abandoned(stream));
        self.note_room();
    }

    /// The window has slid: the peer may have to be told of the next ones.
    pub(super) fn advance_abandoned(&mut self) {
        self.abandon.advance(&self.window);
    }

    /// The peer has not said that it heard what was given up.
    pub(super) fn tell_again(&mut self, now: Instant, paths: &Paths) {
        let at = self.abandon.told_again_at(&self.window, paths);
        self.abandon.due |= at.is_some_and(|at| at <= now);
    }
}

/// FORWARD-TSN names messages, not their parts.
fn last_of(order: DataOrder) -> u32 {
    match order {
        DataOrder::Sequence(number) => number.into(),
        DataOrder::Interleaved { message, .. } => message,
    }
}

/// Eight bytes each: they fit the smallest packet.
const MAX_SKIPPED: usize = 128;
