//! The sending half: waiting messages and chunks in flight.

mod abandon;
mod acknowledge;
mod choose;
mod duplicate;
mod job;
mod message;
mod placed;
mod queue;
mod recovery;
mod reports;
mod rooms;
mod shares;
#[cfg(test)]
mod tests;
mod train;
mod transmit;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_sched::chunk::{ChunkPolicy, ChunkScheduler};
use hawser_sched::tally::{Placed, Tallies};
use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::sctp::{DataOrder, ForwardTsn, Framing, StreamNumber};
use smallvec::SmallVec;

use crate::handshake::Negotiated;
use crate::path::{Path, PathState, Paths};
use crate::{AssociationConfig, Backlog, Event, LossRule, SendError};
use abandon::Abandon;
use duplicate::Budget;
use job::Job;
use message::{MessageId, OVERHEAD};
use placed::PlacedQueue;
use queue::{Next, Queue};
use shares::Shares;
use train::Train;
use window::{Record, Status, Transmission, Window};

pub use message::{Message, OwnerBacklog, Reliability};
pub use placed::{Front, LostMessage, PlacedMessage};

/// The sending half of an association: message queues and the compound congestion window.
///
/// Call [`Self::next_path`] for the path of the next packet and [`Self::fill`] to fill it, until
/// there is none. Report SACKs, the time and removed paths.
#[derive(Debug)]
pub(crate) struct Outbound {
    queue: Queue,
    /// Messages whose path the owner has chosen.
    placed: PlacedQueue,
    shares: Shares,
    window: Window,
    framing: Framing,
    abandon: Abandon,
    scheduler: Box<dyn ChunkScheduler>,
    streams: u16,
    send_buffer: u64,
    max_message: ByteCount,
    sack_delay: Duration,
    losses: LossRule,
    /// Chunks before this one belong to the last window reduction, where missing reports are
    /// counted.
    recovery: u64,
    /// The peer's receive window, as last advertised.
    peer_window: u64,
    /// Time of the last SACK.
    heard_at: Instant,
    /// A message was refused since the buffer was full.
    is_blocked: bool,
    /// Data that the owner holds back, since it hands over little at a time.
    owner_backlog: OwnerBacklog,
    /// Purpose of the next packet.
    job: Option<Job>,
    /// The current packet train.
    train: Option<Train>,
    /// Chunks to be duplicated, and the path for the copies.
    copies: Option<(PathId, SmallVec<[u64; 2]>)>,
    /// Budget for duplicated chunks.
    budget: Budget,
    /// The latest chunks that were lost in a packet, retransmitted and then acknowledged.
    repaired: VecDeque<(u64, Transmission)>,
    /// Placements on each link and their reasons, for the owner's streams.
    tallies: Tallies,
    /// Time when pacing or the policy allows a packet that waits.
    wake_at: Option<Instant>,
    events: VecDeque<Event>,
    /// Scratch memory for reading SACKs.
    fresh: Vec<u64>,
}

impl Outbound {
    pub(crate) fn new(config: &AssociationConfig, negotiated: &Negotiated) -> Self {
        let (interleaving, partial) = (negotiated.interleaving, negotiated.partial_reliability);
        let placed = config.agreed_placed_stream(interleaving, partial);
        let placed = placed.filter(|stream| stream.value() < negotiated.outbound_streams);
        // Peers under a seal are Hawser's, which keep what they have acknowledged beyond a hole;
        // any other may drop it (RFC 9260 §6.2).
        let keeps_all = config.framing == Framing::Compact && interleaving;
        Self {
            queue: Queue::new(interleaving, config.framing),
            placed: PlacedQueue::new(placed),
            shares: Shares::default(),
            window: Window::new(negotiated.initial_tsn, config.framing),
            framing: config.framing,
            abandon: Abandon::new(partial, keeps_all),
            scheduler: config.policy.scheduler(),
            streams: negotiated.outbound_streams,
            send_buffer: config.send_buffer.as_u64(),
            max_message: config.max_message,
            sack_delay: config.sack_delay,
            losses: config.losses,
            recovery: 0,
            peer_window: u64::from(negotiated.peer_window),
            heard_at: Instant::ZERO,
            is_blocked: false,
            owner_backlog: OwnerBacklog::default(),
            job: None,
            train: None,
            copies: None,
            budget: Budget::default(),
            repaired: VecDeque::new(),
            tallies: Tallies::new(TALLIES),
            wake_at: None,
            events: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    /// Queues a message.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        stream: StreamNumber,
        message: Message,
    ) -> Result<(), SendError> {
        if stream.value() >= self.streams || Some(stream) == self.placed.stream() {
            let count = self.streams;
            return Err(SendError::NoSuchStream { stream, count });
        }
        let (size, max) = (ByteCount::from(message.payload.len()), self.max_message);
        if size == ByteCount::ZERO || size > max {
            return Err(SendError::Size { size, max });
        }
        let (held, length) = (self.held(), size.as_u64());
        let mut room = self.send_buffer;
        if length <= self.send_buffer / SMALL && self.queue.is_quiet(stream) {
            // A quarter more is reserved for small messages of streams with nothing waiting, so
            // that a stream which sends without end does not block all others.
            room += self.send_buffer / 4;
        }
        if held > 0 && held + length + OVERHEAD > room {
            self.is_blocked = true;
            return Err(SendError::Full);
        }
        let id = self.abandon.add(now, stream, message.reliability);
        self.queue.push(stream, message, id);
        Ok(())
    }

    /// Queues a message that leaves over this path, once.
    pub(crate) fn send_over(
        &mut self,
        paths: &Paths,
        id: PathId,
        message: PlacedMessage,
    ) -> Result<(), SendError> {
        if self.placed.stream().is_none() {
            let count = self.streams;
            let stream = StreamNumber::default();
            return Err(SendError::NoSuchStream { stream, count });
        }
        let (size, max) = (ByteCount::from(message.length()), self.max_message);
        if size == ByteCount::ZERO || size > max {
            return Err(SendError::Size { size, max });
        }
        let held = self.held();
        let is_full = held > 0 && held + size.as_u64() + OVERHEAD > self.send_buffer;
        if is_full || self.window.len() >= MAX_CHUNKS {
            return Err(SendError::Full);
        }
        let framing = self.framing;
        let packet = paths.path(id).map_or(0, |path| path.packet_size);
        let room = packet.saturating_sub(framing.packet_header());
        let limit = |stream, order: &DataOrder| {
            let header = framing.data_header(stream, order, Some(0));
            framing.payload_within(room, header, order)
        };
        for (front, data) in self.placed.cut(message, limit) {
            let bytes = front.len() + data.payload.len();
            let chunk = self.window.push_placed(front, data);
            self.placed.push(id, chunk, bytes);
        }
        self.shares.on_placed(size.as_u64());
        Ok(())
    }

    /// Returns the next message of [`Self::send_over`] that counts as lost.
    pub(crate) fn take_lost(&mut self) -> Option<LostMessage> {
        self.placed.pop_lost()
    }

    /// Gives up what waits for a path.
    fn drop_placed(&mut self, path: PathId) {
        for chunk in self.placed.remove_path(path) {
            self.lose_placed(chunk, None);
        }
        self.abandon.advance(&self.window);
    }

    /// Gives up a placed chunk. The owner gets it back, unless that was so before.
    fn lose_placed(&mut self, chunk: u64, left_at: Option<Instant>) {
        let record = self.window.get(chunk);
        let is_returned = record.is_some_and(|record| record.is_returned);
        let message = self.window.end_placed(chunk, Status::Abandoned);
        if let Some(message) = message.filter(|_| !is_returned) {
            self.placed.on_lost(LostMessage { message, left_at });
        }
    }

    /// Sets how much the owner holds back.
    pub(crate) fn set_owner_backlog(&mut self, backlog: OwnerBacklog) {
        self.owner_backlog = backlog;
    }

    /// Replaces the policy that assigns new chunks to paths.
    pub(crate) fn set_policy(&mut self, policy: ChunkPolicy) {
        self.scheduler = policy.scheduler();
        // Decisions of the old policy do not bind the new one.
        self.train = None;
    }

    /// Returns the payload of all retransmissions and copies.
    pub(crate) fn repeated(&self) -> ByteCount {
        self.window.repeated()
    }

    /// Takes what was placed on which link since the last call, and why.
    pub(crate) fn take_placed(&mut self) -> Vec<Placed> {
        self.tallies.take()
    }

    /// Tells whether the chunk that the peer waits for can leave over no path: it was cut when all
    /// of them carried larger packets, and fragments of its packet have not arrived.
    pub(crate) fn is_stuck(&self, now: Instant, paths: &Paths) -> bool {
        let first = self.window.get(self.window.first());
        let Some(record) = first.filter(|record| record.status != Status::Abandoned) else {
            return false;
        };
        let size = record.size() as usize + self.framing.packet_header();
        let active = || paths.iter().filter(|path| path.state == PathState::Active);
        let is_too_narrow = |path: &Path| path.is_too_narrow_for(now, size);
        active().next().is_some() && active().all(is_too_narrow)
    }

    /// Returns the payload that is not in a packet yet.
    pub(crate) fn queued(&self) -> ByteCount {
        ByteCount::new(self.queue.bytes())
    }

    /// Returns what the peer has not acknowledged yet.
    pub(crate) fn backlog(&self) -> Backlog {
        let again = self
            .window
            .to_retransmit()
            .filter_map(|it| self.window.get(it));
        let again: u64 = again.map(|record| record.length()).sum();
        Backlog {
            queued: self.queued(),
            in_flight: ByteCount::new(self.window.bytes_in_flight() + again),
            acknowledged_at: self.heard_at,
            sent_twice: ByteCount::new(self.budget.charged()),
            copied: self.window.copied(),
        }
    }

    /// Tells whether nothing waits and everything sent is acknowledged or abandoned.
    pub(crate) fn is_settled(&self) -> bool {
        self.queue.is_empty() && self.window.is_empty()
    }

    /// Returns the next [`Event::Writable`] or [`Event::Abandoned`].
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Tells whether [`Self::poll_forward_tsn`] may have a chunk.
    pub(crate) fn is_forward_tsn_due(&self) -> bool {
        self.abandon.is_forward_tsn_due()
    }

    /// Returns the FORWARD-TSN that is due.
    pub(crate) fn poll_forward_tsn(&mut self, now: Instant) -> Option<ForwardTsn> {
        let interleaved = self.queue.is_interleaving();
        self.abandon
            .poll_forward_tsn(now, &self.window, interleaved)
    }

    /// Abandons messages whose time is over.
    fn expire(&mut self, now: Instant, paths: &mut Paths) {
        while let Some(id) = self.abandon.expired(now) {
            self.give_up(id, paths);
        }
    }

    /// Abandons a message.
    fn give_up(&mut self, id: MessageId, paths: &mut Paths) {
        let (queue, window) = (&mut self.queue, &mut self.window);
        if let Some(stream) = self.abandon.give_up(id, queue, window, paths) {
            self.events.push_back(Event::Abandoned(stream));
            self.note_room();
        }
    }

    /// Returns the room in the peer's window: 0 when a SACK could not report any more chunks.
    fn room(&self) -> u64 {
        if self.window.len() >= MAX_CHUNKS {
            return 0;
        }
        self.peer_window
            .saturating_sub(self.window.bytes_in_flight())
    }

    /// Returns the maximum payload of the next chunk that can be retransmitted over any path.
    fn smallest_payload(&self, paths: &Paths, next: &Next) -> usize {
        let packet = paths.smallest_packet();
        let room = packet.saturating_sub(self.framing.packet_header());
        next.payload_within(self.framing, room)
    }

    /// Returns the payload of the next chunk in a packet of its own.
    fn next_payload(&self, paths: &Paths, next: &Next) -> usize {
        next.rest.min(self.smallest_payload(paths, next))
    }

    /// Tells whether a new chunk of this payload may be sent: the peer has room, or nothing is in
    /// flight and one chunk probes the window.
    fn has_room_for(&self, payload: usize) -> bool {
        payload as u64 <= self.room() || self.window.bytes_in_flight() == 0
    }

    /// Tells whether a failed chunk may be sent again. The first of the window always may, since
    /// the peer waits for it.
    fn may_retransmit(&self, chunk: u64, record: &Record) -> bool {
        let length = record.length() as usize;
        chunk == self.window.first() || self.has_room_for(length)
    }

    /// Returns the memory taken by messages and chunks.
    fn held(&self) -> u64 {
        let chunks = self.window.len() as u64;
        self.queue.held() + self.window.bytes().as_u64() + chunks * OVERHEAD
    }

    /// Reports room in the buffer after a refused message.
    fn note_room(&mut self) {
        if self.is_blocked && self.held() <= self.send_buffer / 4 * 3 {
            self.is_blocked = false;
            self.events.push_back(Event::Writable);
        }
    }
}

/// Fraction of the buffer (1/64) up to which a message is small.
const SMALL: u64 = 64;

/// Memory for the counts of what was placed: those of some 16 streams.
const TALLIES: usize = 32 * 1024;

/// Maximum number of chunks in the window: a gap block has 16 bits.
const MAX_CHUNKS: usize = 65535;
