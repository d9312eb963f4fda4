//! The sending half: messages that wait, chunks that are under way.

mod abandon;
mod acknowledge;
mod choose;
mod queue;
mod recovery;
mod reports;
#[cfg(test)]
mod tests;
mod transmit;
mod twice;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::chunk::{ChunkPolicy, ChunkScheduler};
use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::sctp::{Framing, StreamNumber};
use smallvec::SmallVec;

use crate::association::Terms;
use crate::{AssociationConfig, Backlog, Event, LossRule, SendError};
use abandon::Abandon;
use choose::Train;
use queue::Queue;
use transmit::Job;
use twice::Budget;
use window::{Place, Window};

/// A message to be sent: it arrives as it is, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// At least one byte, at most [`AssociationConfig::max_message`].
    pub payload: Bytes,
    /// What the application says that it is; 0 where it says nothing.
    pub protocol: u32,
    /// It is delivered as soon as it has arrived, whatever the stream's others do.
    pub unordered: bool,
    /// When it is given up.
    pub reliability: Reliability,
    /// It is worth being sent twice at once, over two paths where there are two of like delay, else over one
    /// that has been losing packets: so it need not wait until a loss is noticed. For short messages; at
    /// most one byte in fifty is spent on this, and 256 kbit/s.
    pub twice: bool,
}

impl Message {
    /// An ordered message that is never given up.
    pub fn new(payload: Bytes) -> Self {
        Self {
            payload,
            protocol: 0,
            unordered: false,
            reliability: Reliability::Full,
            twice: false,
        }
    }
}

/// When a message is given up before it has arrived.
///
/// Where the peer does not support that (RFC 3758), only what has not been sent at all is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reliability {
    /// Never.
    #[default]
    Full,
    /// At this instant.
    Until(Instant),
    /// So long after it was taken.
    Lifetime(Duration),
    /// When a part of it would have to be sent once more than so many times again.
    Retransmissions(u32),
}

/// What the owner of an association has in hand and has not handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// How much.
    pub bytes: ByteCount,
    /// More keeps coming, so that this has no end yet.
    pub more: bool,
}

/// Everything that this end sends: the queues of messages, and the compound congestion window.
///
/// Ask [`Self::next_path`] for the path of the next packet and let [`Self::fill`] fill it, until
/// there is none; tell it of SACKs, of the time and of paths that are gone.
#[derive(Debug)]
pub(crate) struct Outbound {
    queue: Queue,
    window: Window,
    framing: Framing,
    abandon: Abandon,
    scheduler: Box<dyn ChunkScheduler>,
    streams: u16,
    send_buffer: u64,
    max_message: ByteCount,
    sack_delay: Duration,
    losses: LossRule,
    /// Chunks before this one belong to a reduction that was made, where missing reports are counted.
    recovery: u64,
    /// What the peer advertised last.
    peer_window: u64,
    /// When a SACK came last.
    heard_at: Instant,
    /// A message was refused for want of room.
    is_blocked: bool,
    /// What waits at the owner's, who hands over no more than leaves at once.
    behind: Behind,
    /// What the next packet is for.
    job: Option<Job>,
    /// What is being sent in a row.
    train: Option<Train>,
    /// Chunks that go once more, mostly over a second path.
    copies: Option<(PathId, SmallVec<[u64; 2]>)>,
    /// What may be spent on chunks that go twice.
    budget: Budget,
    /// The latest chunks that were lost at a place, sent again, and then acknowledged.
    mended: VecDeque<(u64, Place)>,
    /// When a packet may leave that may not now, by its pace or by the policy.
    wake_at: Option<Instant>,
    events: VecDeque<Event>,
    /// For reading SACKs, kept for its memory.
    fresh: Vec<u64>,
}

impl Outbound {
    pub(crate) fn new(config: &AssociationConfig, terms: &Terms) -> Self {
        Self {
            queue: Queue::new(terms.interleaving, config.framing),
            window: Window::new(terms.initial_tsn, config.framing),
            framing: config.framing,
            abandon: Abandon::new(terms.partial_reliability),
            scheduler: config.policy.scheduler(),
            streams: terms.outbound_streams,
            send_buffer: config.send_buffer.as_u64(),
            max_message: config.max_message,
            sack_delay: config.sack_delay,
            losses: config.losses,
            recovery: 0,
            peer_window: u64::from(terms.peer_window),
            heard_at: Instant::ZERO,
            is_blocked: false,
            behind: Behind::default(),
            job: None,
            train: None,
            copies: None,
            budget: Budget::default(),
            mended: VecDeque::new(),
            wake_at: None,
            events: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    /// Takes a message.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        stream: StreamNumber,
        message: Message,
    ) -> Result<(), SendError> {
        if stream.value() >= self.streams {
            let count = self.streams;
            return Err(SendError::NoSuchStream { stream, count });
        }
        let (size, max) = (ByteCount::from(message.payload.len()), self.max_message);
        if size == ByteCount::ZERO || size > max {
            return Err(SendError::Size { size, max });
        }
        let held = self.held();
        let room = self.room_for(stream, size.as_u64());
        if held > 0 && held + size.as_u64() + OVERHEAD > room {
            self.is_blocked = true;
            return Err(SendError::Full);
        }
        let id = self.abandon.add(now, stream, message.reliability);
        self.queue.push(stream, message, id);
        Ok(())
    }

    /// What the owner will hand over, as of now.
    pub(crate) fn set_behind(&mut self, behind: Behind) {
        self.behind = behind;
    }

    /// Chooses paths for new chunks by another policy from now on.
    pub(crate) fn set_policy(&mut self, policy: ChunkPolicy) {
        self.scheduler = policy.scheduler();
        // What the one before has decided, or waited for, does not bind this one.
        self.train = None;
    }

    /// Payload that was sent again, or over two paths, each time counting.
    pub(crate) fn repeated(&self) -> ByteCount {
        self.window.repeated()
    }

    /// Payload that is in no packet yet.
    pub(crate) fn queued(&self) -> ByteCount {
        ByteCount::new(self.queue.bytes())
    }

    /// What the peer does not have yet.
    pub(crate) fn backlog(&self) -> Backlog {
        let again = self.window.again().filter_map(|it| self.window.get(it));
        let again: u64 = again.map(|record| record.data.payload.len() as u64).sum();
        Backlog {
            queued: self.queued(),
            under_way: ByteCount::new(self.window.under_way() + again),
            acknowledged_at: self.heard_at,
            sent_twice: ByteCount::new(self.budget.charged()),
        }
    }

    /// Whether nothing waits and everything that was sent is acknowledged or given up.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.window.is_empty()
    }

    /// [`Event::Writable`] and [`Event::Abandoned`].
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How much more the peer has room for: nothing, once there are chunks that no SACK could tell of.
    fn room(&self) -> u64 {
        if self.window.len() >= MAX_CHUNKS {
            return 0;
        }
        self.peer_window.saturating_sub(self.window.under_way())
    }

    /// What may be held with a message of this size. Streams that fill the buffer leave a quarter beside it to
    /// those with nothing waiting, as long as these write little at a time: else one that sends without end
    /// would keep all others from being heard.
    fn room_for(&self, stream: StreamNumber, size: u64) -> u64 {
        match size <= self.send_buffer / SMALL && self.queue.is_quiet(stream) {
            true => self.send_buffer + self.send_buffer / 4,
            false => self.send_buffer,
        }
    }

    /// What messages and chunks take of this host's memory.
    fn held(&self) -> u64 {
        let chunks = self.window.len() as u64;
        self.queue.held() + self.window.bytes().as_u64() + chunks * OVERHEAD
    }

    /// Tells whoever was refused that there is room again.
    fn note_room(&mut self) {
        if self.is_blocked && self.held() <= self.send_buffer / 4 * 3 {
            self.is_blocked = false;
            self.events.push_back(Event::Writable);
        }
    }
}

/// A message with at most such a part of the buffer is small.
const SMALL: u64 = 64;

/// What a message or chunk takes besides its payload.
const OVERHEAD: u64 = 256;

/// A gap block counts with 16 bits.
const MAX_CHUNKS: usize = 65535;
