use bytes::Bytes;
use hawser_types::{ByteCount, StreamId, StreamOffset};
use hawser_wire::ChunkHeader;

use crate::BASE_CREDIT;
use crate::error::Misbehaviour;
use crate::reassembly::{Arrived, Inserted, Reassembly, charge};

/// The receiving direction of one stream: reassembly, and how much the peer may send.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    stream: StreamId,
    reassembly: Reassembly,
    used: u64,
    received: u64,
    released: u64,
    limit: u64,
    window: u64,
    grown_at: u64,
    /// Data that comes has no reader, and is dropped.
    discards: bool,
    /// The code with which the peer ended this direction before its end.
    reset: Option<u32>,
}

/// Data that came and was not read, of one stream or of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Credit that it uses.
    pub(crate) charge: u64,
    /// Part of that which keeps no read buffer alive.
    pub(crate) own: u64,
}

/// The memory that the streams of a session share beyond what each has of its own.
#[derive(Debug)]
pub(crate) struct Pool {
    capacity: u64,
    lent: u64,
    /// The largest window that a reader who kept up has grown.
    grown: u64,
}

impl Pool {
    pub(crate) fn new(capacity: ByteCount) -> Self {
        Self {
            capacity: capacity.as_u64(),
            lent: 0,
            grown: 0,
        }
    }

    /// From now on so much is lent; what is above it comes back as streams end.
    pub(crate) fn set_capacity(&mut self, capacity: ByteCount) {
        self.capacity = capacity.as_u64();
    }

    /// Bytes promised to streams beyond their own 64 KiB each.
    pub(crate) fn lent(&self) -> u64 {
        self.lent
    }

    /// Lends up to `wanted` bytes.
    fn lend(&mut self, wanted: u64) -> u64 {
        let lent = wanted.min(self.capacity.saturating_sub(self.lent));
        self.lent += lent;
        lent
    }

    fn take_back(&mut self, bytes: u64) {
        self.lent = self.lent.saturating_sub(bytes);
    }

    /// No stream gets more than half.
    fn largest_window(&self) -> u64 {
        BASE_CREDIT + self.capacity / 2
    }

    /// Returns the window of a new stream: the one that streams of this session came to need,
    /// within bounds.
    fn opening_window(&self) -> u64 {
        let needed = self.grown.min(self.small_share());
        OPENING_WINDOW.max(needed).min(self.largest_window())
    }

    /// Returns what a stream may be lent before it is open, or has shown its rate.
    fn small_share(&self) -> u64 {
        self.capacity / 32
    }

    /// Returns what it may lend, lent or not.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    fn is_short(&self) -> bool {
        self.lent > self.capacity / 4 * 3
    }
}

impl ReceiveStream {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            reassembly: Reassembly::new(stream),
            used: 0,
            received: 0,
            released: 0,
            limit: BASE_CREDIT,
            window: BASE_CREDIT,
            grown_at: 0,
            discards: false,
            reset: None,
        }
    }

    /// Takes a chunk in.
    pub(crate) fn on_chunk(
        &mut self,
        header: &ChunkHeader,
        payload: impl Into<Arrived>,
    ) -> Result<Inserted, Misbehaviour> {
        let payload = payload.into();
        let cost = charge(payload.len());
        let length = payload.len() as u64;
        let inserted = self
            .reassembly
            .insert(header.offset, payload, header.flags.fin)?;
        if inserted == Inserted::New {
            self.used += cost;
            self.received += length;
            if self.used > self.limit {
                return Err(Misbehaviour::CreditExceeded(self.stream));
            }
        }
        if self.discards {
            self.drop_held();
        }
        Ok(inserted)
    }

    /// True if the peer has left more holes than a stream may have whose chunks are taken as they
    /// come. In order, credit bounds what is kept behind holes.
    pub(crate) fn has_too_many_holes(&self) -> bool {
        let most = if self.discards {
            MAX_RANGES_DROPPED
        } else {
            MAX_RANGES
        };
        self.reassembly.range_count() > most
    }

    /// From now on nothing is handed out, and what is here is dropped.
    pub(crate) fn discard(&mut self) {
        self.discards = true;
        // Chunks behind a hole free their memory as well.
        self.reassembly.set_unordered();
        self.drop_held();
    }

    /// Notes that the peer has reset this direction.
    pub(crate) fn on_reset(&mut self, code: u32) {
        self.discard();
        self.reset = Some(code);
    }

    /// Returns the code with which the peer has reset this direction.
    pub(crate) fn reset_code(&self) -> Option<u32> {
        self.reset
    }

    /// True if chunks that come have no reader.
    pub(crate) fn is_discarding(&self) -> bool {
        self.discards
    }

    fn drop_held(&mut self) {
        while self.read(usize::MAX).is_some() {}
    }

    /// Takes out up to `max` bytes that are due.
    pub(crate) fn read(&mut self, max: usize) -> Option<(StreamOffset, Bytes)> {
        let (offset, bytes, charge) = self.reassembly.pop(max)?;
        self.released += charge;
        Some((offset, bytes))
    }

    /// Gives the stream its first share of the pool, if that is not short. Whether the peer has
    /// to be told.
    pub(crate) fn grow_at_opening(&mut self, pool: &mut Pool) -> bool {
        if !pool.is_short() {
            self.grow_to(pool.opening_window(), pool);
        }
        self.advance_limit()
    }

    /// The same for a stream that the peer has yet to open.
    pub(crate) fn grow_early(&mut self, pool: &mut Pool) -> bool {
        if !pool.is_short() {
            self.grow_to(pool.opening_window().min(pool.small_share()), pool);
        }
        self.advance_limit()
    }

    /// Grows the window of a stream whose reader keeps up, and moves the limit on. Whether the
    /// peer has to be told.
    pub(crate) fn update_credit(&mut self, pool: &mut Pool) -> bool {
        let keeps_up = self.reassembly.ready_bytes() <= self.window / 4;
        if keeps_up && self.released - self.grown_at >= self.window / 2 {
            self.grown_at = self.released;
            self.grow_to((self.window * 2).min(pool.largest_window()), pool);
            pool.grown = pool.grown.max(self.window);
        }
        let gain = (self.released + self.window).saturating_sub(self.limit);
        gain >= self.window / 4 && self.advance_limit()
    }

    /// From now on chunks are handed out as they come, each with its position.
    pub(crate) fn set_unordered(&mut self) {
        self.reassembly.set_unordered();
    }

    /// True if every byte up to the end has come.
    pub(crate) fn is_complete(&self) -> bool {
        self.reassembly.is_complete()
    }

    /// True if every byte up to the end has been read.
    pub(crate) fn is_read_out(&self) -> bool {
        self.reassembly.is_read_out()
    }

    /// Returns the bytes that can be read now.
    pub(crate) fn ready_bytes(&self) -> u64 {
        self.reassembly.ready_bytes()
    }

    /// Returns the bytes that came, each counted once.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns what lies here and was not read.
    pub(crate) fn unread(&self) -> Unread {
        Unread {
            charge: self.used - self.released,
            own: self.reassembly.own_charge(),
        }
    }

    /// Copies what lies here out of read buffers.
    pub(crate) fn copy_out(&mut self) {
        self.reassembly.copy_out();
    }

    /// The limit that the peer was told, or is to be told.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// True if the peer was ever allowed more than the credit of every stream.
    pub(crate) fn has_moved(&self) -> bool {
        self.limit > BASE_CREDIT
    }

    /// The stream is over: what it borrowed goes back.
    pub(crate) fn close(&mut self, pool: &mut Pool) {
        pool.take_back(self.window - BASE_CREDIT);
        self.window = BASE_CREDIT;
    }

    fn grow_to(&mut self, window: u64, pool: &mut Pool) {
        self.window += pool.lend(window.saturating_sub(self.window));
    }

    fn advance_limit(&mut self) -> bool {
        let limit = self.released + self.window;
        let moved = limit > self.limit;
        self.limit = self.limit.max(limit);
        moved
    }
}

/// Window of a new stream before any reader has shown its speed.
const OPENING_WINDOW: u64 = 256 * 1024;
/// Ranges that a stream may have come in while it is read out of order. A peer with chunks of one
/// packet and a stalled link of 100 Mbit/s leaves this many in several seconds.
const MAX_RANGES: usize = 65_536;
/// The same for a stream that has no reader: less is lost by its reset.
const MAX_RANGES_DROPPED: usize = 4096;

#[cfg(test)]
mod tests {
    use hawser_types::SegmentNumber;
    use hawser_wire::ChunkFlags;

    use super::*;

    fn chunk(stream: &mut ReceiveStream, at: u64, length: usize) -> Result<Inserted, Misbehaviour> {
        let header = ChunkHeader {
            stream: StreamId::new(2),
            segment: SegmentNumber::new(0),
            offset: StreamOffset::new(at),
            flags: ChunkFlags::default(),
            metadata: Bytes::new(),
        };
        stream.on_chunk(&header, Bytes::from(vec![0; length]))
    }

    #[test]
    fn more_than_the_limit_is_misbehaviour_even_in_tiny_chunks() {
        let mut stream = ReceiveStream::new(StreamId::new(2));
        for n in 0..BASE_CREDIT / 256 {
            chunk(&mut stream, n * 2, 1).unwrap();
        }
        let fault = Misbehaviour::CreditExceeded(StreamId::new(2));
        assert_eq!(chunk(&mut stream, 5000, 1), Err(fault));
    }

    #[test]
    fn a_prompt_reader_gets_a_growing_window_but_never_more_than_half_the_pool() {
        let mut pool = Pool::new(ByteCount::from_mib(4));
        let mut stream = ReceiveStream::new(StreamId::new(2));
        stream.grow_at_opening(&mut pool);
        let mut at = 0;
        for _ in 0..1000 {
            chunk(&mut stream, at, 30_000).unwrap();
            at += 30_000;
            stream.read(usize::MAX).unwrap();
            stream.update_credit(&mut pool);
        }
        assert_eq!(stream.window, BASE_CREDIT + (2 << 20));
        assert_eq!(pool.lent(), 2 << 20);
        stream.close(&mut pool);
        assert_eq!(pool.lent(), 0);
    }

    #[test]
    fn a_stalled_reader_gets_no_more_than_the_opening_window() {
        let mut pool = Pool::new(ByteCount::from_mib(4));
        let mut stream = ReceiveStream::new(StreamId::new(2));
        assert!(stream.grow_at_opening(&mut pool));
        chunk(&mut stream, 0, 65_536).unwrap();
        assert!(!stream.update_credit(&mut pool));
        assert_eq!(stream.limit(), OPENING_WINDOW);
    }
}
