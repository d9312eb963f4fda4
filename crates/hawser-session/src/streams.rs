//! The streams of a session: which are open, whose turn it is to send, and what the peer may send.

mod early_credit;
mod memory;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use early_credit::EarlyCredit;
use hawser_types::{ByteCount, ChannelId, Instant, RangeSet, StreamGroup, StreamId};
use hawser_wire::ChannelRole;
use memory::ReceiveMemory;
use turns::Turns;

use crate::BASE_CREDIT;
use crate::channels::LEAST_CARRIED;
use crate::error::{Misbehaviour, OpenError, StreamError};
use crate::read_buffers::ReadBuffer;
use crate::reassembly::{Arrived, charge};
use crate::side::Side;
use crate::stream::{Pool, ReceiveStream, SendBuffers, SendStream, Stream, Unread};

/// The streams of a session.
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    by_id: BTreeMap<StreamId, Stream>,
    /// Streams that are over, by the side that opened them: the client's, then the gateway's.
    ended: [RangeSet; 2],
    /// Number of open streams, likewise.
    open: [u64; 2],
    /// Number of the stream that this side opens next.
    next: StreamId,
    /// Streams that the peer lets this side have open at once.
    allowed_by_peer: u64,
    /// Streams that the peer may have open at once.
    allowed_to_peer: u64,
    pool: Pool,
    memory: ReceiveMemory,
    send_buffers: SendBuffers,
    /// Streams of the peer whose opening chunk has not come, by the time of what came first.
    unopened: BTreeSet<(Instant, StreamId)>,
    early: EarlyCredit,
    /// Streams whose limits the peer has to be told.
    credit_due: BTreeSet<StreamId>,
    /// Streams that wait for their turn, by the kind of channel that their next chunk belongs on.
    turns: Turns,
    /// Bytes that the links together carry in a moment: more at once is bulk.
    small: u64,
}

/// State of the stream of a chunk that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The stream is open, and was so before.
    Known,
    /// The stream is open from now on. The peer is to be told of its limit if that has moved.
    Opened {
        /// The limit has moved.
        limit_moved: bool,
    },
    /// The stream is over.
    Over,
    /// There is no room for another stream: the peer is to be told.
    Refused,
}

impl Streams {
    /// `memory` is lent to streams beyond their own 64 KiB each, and half of `send` may wait in all
    /// of them to be sent; the peer may have `allowed` streams open at once.
    pub(crate) fn new(side: Side, memory: ByteCount, send: ByteCount, allowed: u64) -> Self {
        Self {
            side,
            by_id: BTreeMap::new(),
            ended: Default::default(),
            open: [0; 2],
            next: side.first_stream(),
            allowed_by_peer: INITIAL_STREAMS,
            allowed_to_peer: allowed,
            pool: Pool::new(memory),
            memory: ReceiveMemory::new(memory.as_u64()),
            send_buffers: SendBuffers::new(waiting(send)),
            unopened: BTreeSet::new(),
            early: EarlyCredit::new(side.peer().first_stream()),
            credit_due: BTreeSet::new(),
            turns: Turns::default(),
            small: LEAST_CARRIED,
        }
    }

    /// Returns a stream.
    pub(crate) fn get(&self, id: StreamId) -> Option<&Stream> {
        self.by_id.get(&id)
    }

    /// Returns a stream, to change it.
    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.by_id.get_mut(&id)
    }

    /// Returns a stream, to change it, or says that it is not open.
    pub(crate) fn open_mut(&mut self, id: StreamId) -> Result<&mut Stream, StreamError> {
        self.by_id.get_mut(&id).ok_or(StreamError::Unknown(id))
    }

    /// True if the stream is open.
    pub(crate) fn contains(&self, id: StreamId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Changes the receiving direction of a stream by `change`, and counts the memory that it
    /// takes then. `None` if there is no such stream.
    pub(crate) fn receive<T>(
        &mut self,
        id: StreamId,
        change: impl FnOnce(&mut ReceiveStream) -> T,
    ) -> Option<T> {
        let receive = self.by_id.get_mut(&id)?.receive_mut();
        let before = receive.unread();
        let result = change(receive);
        self.memory.on_change(before, receive.unread());
        Some(result)
    }

    /// Returns the number of streams.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns all streams, by number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (StreamId, &Stream)> {
        self.by_id.iter().map(|(id, stream)| (*id, stream))
    }

    /// True if this side opens streams with this number.
    pub(crate) fn is_mine(&self, id: StreamId) -> bool {
        self.side.opens(id)
    }

    /// Notes how many streams the peer lets this side have open at once.
    pub(crate) fn set_allowed_by_peer(&mut self, streams: u64) {
        self.allowed_by_peer = streams;
    }

    /// Opens a stream of this side for a group. Also tells whether its limit has moved, so that the
    /// peer has to be told.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        group: StreamGroup,
        metadata: Bytes,
    ) -> Result<(StreamId, bool), OpenError> {
        let id = self.next;
        let (side, _) = place_of(id);
        if self.open[side] >= self.allowed_by_peer {
            return Err(OpenError::TooManyStreams(self.allowed_by_peer));
        }
        self.next = StreamId::new(id.value() + 2);
        let mut send = SendStream::new(now, Some(metadata.clone()), self.send_buffers.buffer());
        if let Some(limit) = self.early.take_limit(id) {
            send.on_credit(limit);
        }
        let receive = ReceiveStream::new(id);
        let limit_moved = self.begin(now, id, metadata, send, receive);
        self.set_group(now, id, group);
        Ok((id, limit_moved))
    }

    /// Finds the stream of a chunk that came, and opens it if the peer does so with it.
    pub(crate) fn find_or_open(
        &mut self,
        now: Instant,
        id: StreamId,
    ) -> Result<Found, Misbehaviour> {
        if self.by_id.contains_key(&id) {
            return Ok(Found::Known);
        }
        let (side, number) = place_of(id);
        if self.ended[side].contains(number) {
            return Ok(Found::Over);
        }
        if self.is_mine(id) {
            return Err(Misbehaviour::NotOpened(id));
        }
        self.check_gaps(id)?;
        if self.open[side] >= self.allowed_to_peer {
            // The two ends count a stream as over at different moments: an honest peer may come
            // too early.
            self.end_unopened(id);
            return Ok(Found::Refused);
        }
        let receive = self.early.take(id);
        self.unopened.insert((now, id));
        let send = SendStream::new(now, None, self.send_buffers.buffer());
        let limit_moved = self.begin(now, id, Bytes::new(), send, receive);
        Ok(Found::Opened { limit_moved })
    }

    /// Notes that the peer will never open a stream, since it has reset it.
    pub(crate) fn on_reset_unopened(&mut self, id: StreamId) -> Result<(), Misbehaviour> {
        self.check_gaps(id)?;
        self.end_unopened(id);
        Ok(())
    }

    /// Takes a stream out that is over; what it borrowed goes back.
    pub(crate) fn remove(&mut self, id: StreamId) -> Option<Stream> {
        self.withdraw(id);
        let mut stream = self.by_id.remove(&id)?;
        let receive = stream.receive_mut();
        self.memory.on_change(receive.unread(), Unread::default());
        receive.close(&mut self.pool);
        self.unopened.remove(&(stream.opened_at(), id));
        self.credit_due.remove(&id);
        let (side, number) = place_of(id);
        self.open[side] = self.open[side].saturating_sub(1);
        self.turns.leave(stream.group());
        self.ended[side].insert(number..number + 1);
        Some(stream)
    }

    // Turns.

    /// Enlists a stream for its turn, if it has something to send.
    pub(crate) fn enlist(&mut self, now: Instant, id: StreamId) {
        if let Some(stream) = self.by_id.get_mut(&id)
            && let Some(role) = stream.send_mut().enlist(now, self.small)
        {
            self.turns.push(role, stream.group(), id);
        }
    }

    /// Takes a stream out of those that wait for their turn: it is over, or has nothing to send any
    /// more.
    pub(crate) fn withdraw(&mut self, id: StreamId) {
        if let Some(stream) = self.by_id.get_mut(&id)
            && stream.send().is_enlisted()
        {
            stream.send_mut().delist();
            self.turns.withdraw(stream.group(), id);
        }
    }

    /// Returns the stream whose turn it is, and how many bytes its next chunk could have.
    pub(crate) fn next_turn(&mut self, role: ChannelRole) -> Option<(StreamId, u64)> {
        while let Some(id) = self.turns.first(role) {
            if let Some(stream) = self.by_id.get_mut(&id) {
                if let Some(size) = stream.send().sendable() {
                    return Some((id, size));
                }
                stream.send_mut().delist();
            }
            self.turns.take_first(role);
        }
        None
    }

    /// Ends the turn of the stream whose turn it is.
    pub(crate) fn end_turn(&mut self, role: ChannelRole) {
        if let Some(id) = self.turns.take_first(role)
            && let Some(stream) = self.by_id.get_mut(&id)
        {
            stream.send_mut().delist();
        }
    }

    /// Charges a stream's group with a chunk that was cut in its turn.
    pub(crate) fn on_cut(&mut self, role: ChannelRole, id: StreamId, length: usize) {
        if let Some(stream) = self.by_id.get(&id) {
            self.turns.charge(role, stream.group(), charge(length));
        }
    }

    /// Has a stream take its turns among those of a group.
    pub(crate) fn set_group(&mut self, now: Instant, id: StreamId, group: StreamGroup) {
        self.withdraw(id);
        if let Some(stream) = self.by_id.get_mut(&id) {
            // In this order: where it is in that group already, the group stays known.
            self.turns.join(group);
            self.turns.leave(stream.group());
            stream.set_group(group);
            self.enlist(now, id);
        }
    }

    /// True if a stream waits for its turn.
    pub(crate) fn any_waiting(&self, role: ChannelRole) -> bool {
        self.turns.first(role).is_some()
    }

    /// Returns the first streams that wait for their turn, of each kind at most `most`.
    pub(crate) fn waiting(&self, most: usize) -> impl Iterator<Item = &Stream> {
        let ids = self.turns.waiting(most);
        ids.filter_map(|id| self.by_id.get(&id))
    }

    /// Sets how many bytes at once are not bulk.
    pub(crate) fn set_small(&mut self, bytes: u64) {
        self.small = bytes;
    }

    /// True if data waits that the peer's credit does not allow to send.
    pub(crate) fn any_credit_blocked(&self) -> bool {
        let mut streams = self.by_id.values();
        streams.any(|stream| stream.send().is_credit_blocked())
    }

    // Credit.

    /// Takes in a limit that the peer sets.
    pub(crate) fn on_credit(&mut self, now: Instant, id: StreamId, limit: u64) {
        if let Some(stream) = self.by_id.get_mut(&id) {
            stream.send_mut().on_credit(limit);
            self.enlist(now, id);
        } else if self.is_mine(id) {
            self.early.on_credit(self.next, id, limit);
        }
    }

    /// Moves the limit of a stream on after the application has read from it. True if the peer has
    /// to be told.
    pub(crate) fn update_credit(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.by_id.get_mut(&id) else {
            return false;
        };
        let receive = stream.receive_mut();
        // Once everything is there, more credit would be of no use.
        let moved = !receive.is_complete() && receive.update_credit(&mut self.pool);
        if moved {
            self.credit_due.insert(id);
        }
        moved
    }

    /// Lends the peer's next streams what they may begin with. True if the peer has to be told.
    pub(crate) fn prepare(&mut self) -> bool {
        let mut moved = false;
        for id in self.early.prepare(&mut self.pool) {
            self.credit_due.insert(id);
            moved = true;
        }
        moved
    }

    /// Tells the peer the limit of a stream with the next record.
    pub(crate) fn owe_credit(&mut self, id: StreamId) {
        self.credit_due.insert(id);
    }

    /// Tells the peer all limits again that have moved. True if there are any.
    pub(crate) fn owe_all_credit(&mut self) -> bool {
        let streams = self.by_id.iter();
        let moved = streams.filter(|(_, stream)| stream.receive().has_moved());
        self.credit_due.extend(moved.map(|(id, _)| *id));
        self.credit_due.extend(self.early.told());
        self.is_credit_due()
    }

    /// True if the peer has to be told a limit.
    pub(crate) fn is_credit_due(&self) -> bool {
        !self.credit_due.is_empty()
    }

    /// Takes out a stream whose limit the peer has to be told.
    pub(crate) fn take_credit_due(&mut self) -> Option<StreamId> {
        self.credit_due.pop_first()
    }

    /// Returns the limit of a stream that is open or prepared.
    pub(crate) fn limit(&self, id: StreamId) -> Option<u64> {
        let known = self.by_id.get(&id).map(|stream| stream.receive().limit());
        known.or_else(|| self.early.limit(id))
    }

    /// Lends nothing more to streams until the next [`Streams::set_memory`].
    pub(crate) fn stop_lending(&mut self) {
        self.pool.set_capacity(ByteCount::ZERO);
    }

    /// Lends at most `receive` to streams from now on, and bounds what lies unread. All together
    /// may let half of `send` wait to be sent.
    pub(crate) fn set_memory(&mut self, receive: ByteCount, send: ByteCount) {
        self.send_buffers.set_most(waiting(send));
        self.pool.set_capacity(receive);
        self.memory.set_share(receive.as_u64());
    }

    // Memory.

    /// Lets the peer have as many streams open as the memory is for, at most as many as it may.
    /// Returns their number.
    pub(crate) fn allow_by_memory(&mut self) -> u64 {
        let by_memory = (self.pool.capacity() / MEMORY_EACH).max(LEAST_ALLOWED);
        self.allowed_to_peer = self.allowed_to_peer.min(by_memory);
        self.allowed_to_peer
    }

    /// Returns a payload that came on a channel, as it is kept: a slice of its read buffer, or a
    /// copy where too little of the buffer would be used.
    pub(crate) fn keep(
        &mut self,
        channel: ChannelId,
        payload: Bytes,
        buffer: Option<ReadBuffer>,
    ) -> Arrived {
        let Some(buffer) = buffer else {
            return if payload.len() < SMALL_PAYLOAD {
                Arrived::from(Bytes::copy_from_slice(&payload))
            } else {
                Arrived::from(payload)
            };
        };
        let is_large = !payload.is_empty() && payload.len() >= buffer.size.as_usize() / COPIED_PART;
        let pin = is_large.then(|| self.memory.pin(channel, buffer)).flatten();
        match pin {
            Some(pin) => Arrived::slice(payload, pin),
            None => Arrived::from(Bytes::copy_from_slice(&payload)),
        }
    }

    /// Forgets the read buffers of a channel that is gone.
    pub(crate) fn forget_channel(&mut self, channel: ChannelId) {
        self.memory.forget(channel);
    }

    /// Returns the memory of what came and was not read.
    pub(crate) fn held(&self) -> ByteCount {
        ByteCount::new(self.memory.bytes())
    }

    /// Returns the stream to reset where what came takes too much memory: the newest of those with
    /// something unread, the peer's first. Read buffers of which little is used go before.
    pub(crate) fn next_beyond_memory(&mut self) -> Option<StreamId> {
        if !self.memory.is_exceeded() {
            return None;
        }
        let ids: Vec<_> = self.by_id.keys().copied().collect();
        for id in &ids {
            self.receive(*id, ReceiveStream::copy_out);
        }
        if !self.memory.is_exceeded() {
            return None;
        }
        let unread = |id: &&StreamId| {
            let stream = self.by_id.get(*id);
            stream.is_some_and(|stream| stream.receive().unread().charge > 0)
        };
        let newest = |mine| {
            let of_side = ids.iter().rev().filter(|id| self.is_mine(**id) == mine);
            of_side.copied().find(|id| unread(&id))
        };
        newest(false).or_else(|| newest(true))
    }

    // Opening.

    /// Notes that the opening chunk of a stream came.
    pub(crate) fn on_opening(&mut self, id: StreamId) {
        if let Some(stream) = self.by_id.get(&id) {
            self.unopened.remove(&(stream.opened_at(), id));
        }
    }

    /// Returns the time until which the opening chunk of a stream has to come.
    pub(crate) fn unopened_until(&self) -> Option<Instant> {
        let (since, _) = self.unopened.first()?;
        Some(*since + MAX_UNOPENED)
    }

    /// Returns a stream whose opening chunk should have come by now.
    pub(crate) fn overdue(&self, now: Instant) -> Option<StreamId> {
        let (_, id) = self.unopened.first()?;
        self.unopened_until().filter(|until| *until <= now)?;
        Some(*id)
    }

    /// Returns the memory promised to streams beyond their own share.
    pub(crate) fn lent(&self) -> ByteCount {
        ByteCount::new(self.pool.lent())
    }

    /// Adds a stream and lends it what it begins with. True if the peer has to be told of that.
    fn begin(
        &mut self,
        now: Instant,
        id: StreamId,
        own_metadata: Bytes,
        send: SendStream,
        mut receive: ReceiveStream,
    ) -> bool {
        let limit_moved = receive.grow_at_opening(&mut self.pool);
        if limit_moved {
            self.credit_due.insert(id);
        }
        let stream = Stream::new(now, own_metadata, send, receive);
        let (side, _) = place_of(id);
        self.open[side] += 1;
        self.turns.join(stream.group());
        self.by_id.insert(id, stream);
        limit_moved
    }

    fn end_unopened(&mut self, id: StreamId) {
        let (side, number) = place_of(id);
        self.ended[side].insert(number..number + 1);
        if self.early.drop_stream(id, &mut self.pool) {
            self.credit_due.remove(&id);
        }
    }

    /// Refuses a peer that leaves too many gaps. Streams end in any order, but the gaps between
    /// those that are over can't be more than those that are open and those that are still on their
    /// way.
    fn check_gaps(&self, id: StreamId) -> Result<(), Misbehaviour> {
        let (side, _) = place_of(id);
        if self.ended[side].range_count() as u64 > self.allowed_to_peer * 2 + MAX_GAPS {
            return Err(Misbehaviour::TooManyStreams(id));
        }
        Ok(())
    }
}

/// Returns the bytes that may wait in all streams, beside `send` bytes that are unacknowledged.
fn waiting(send: ByteCount) -> ByteCount {
    ByteCount::new(send.as_u64() / 2)
}

/// Returns the set that a stream's number belongs to, by the side that opens it, and the number's
/// place in that set.
fn place_of(id: StreamId) -> (usize, u64) {
    let is_clients = id.is_client_opened();
    // Stream 0 is not in the set of the client's streams, which begin with 2.
    let place = (id.value() / 2).saturating_sub(u64::from(is_clients));
    (usize::from(!is_clients), place)
}

/// Memory for each stream that the peer may open. A stream may use four times as much before its
/// reader has taken any; few do at the same time.
const MEMORY_EACH: u64 = BASE_CREDIT / 4;
/// Streams that the peer may open even where memory is short: those of a busy browser.
const LEAST_ALLOWED: u64 = 256;
/// Payloads below this part of their buffer are copied out of it.
const COPIED_PART: usize = 8;
/// Payloads below this are copied where the buffer is not known.
const SMALL_PAYLOAD: usize = 16 * 1024;
/// Time for the opening chunk to come after the first of what follows it: it may have to be sent
/// again over other links.
const MAX_UNOPENED: Duration = Duration::from_secs(15);
/// Streams that a side may open before it has heard the peer's hello.
const INITIAL_STREAMS: u64 = 64;
/// Gaps beside those that open streams explain.
const MAX_GAPS: u64 = 1024;
