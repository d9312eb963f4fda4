use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{Instant, SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{ChannelRole, ChunkFlags, ChunkHeader};

use super::send_buffers::SendBuffer;
use crate::error::StreamError;
use crate::reassembly::charge;
use crate::{BASE_CREDIT, Payload};

/// The sending direction of one stream: what the application wrote and no chunk was cut from yet,
/// and what the peer allows.
#[derive(Debug)]
pub(crate) struct SendStream {
    queue: VecDeque<Bytes>,
    /// Small writes are gathered here, behind the queue.
    tail: BytesMut,
    /// Counts what is in both of them.
    buffer: SendBuffer,
    next: StreamOffset,
    /// Metadata of the opening chunk, until that is cut.
    opening: Option<Bytes>,
    opened: bool,
    end: End,
    used: u64,
    limit: u64,
    unacknowledged: u64,
    express: Allowance,
    /// The stream waits for its turn among those of this kind.
    enlisted: Option<ChannelRole>,
    /// The application was told that the buffer is full.
    write_blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// No more is written; the last chunk is not cut yet.
    Finished,
    /// The last chunk is cut.
    Cut,
    /// Data that was not sent, or not acknowledged, is dropped.
    Early,
}

/// A chunk just cut from a stream.
#[derive(Debug)]
pub(crate) struct Cut {
    offset: StreamOffset,
    flags: ChunkFlags,
    metadata: Bytes,
    payload: Payload,
    length: usize,
}

impl Cut {
    /// Returns the header of the chunk, its segment number left out, then payload and length.
    pub(crate) fn into_parts(self, stream: StreamId) -> (ChunkHeader, Payload, usize) {
        let header = ChunkHeader {
            stream,
            segment: SegmentNumber::default(),
            offset: self.offset,
            flags: self.flags,
            metadata: self.metadata,
        };
        (header, self.payload, self.length)
    }
}

impl SendStream {
    /// A direction that begins with an opening chunk carrying `opening`. `None`: the opening
    /// chunk waits until [`SendStream::open`].
    pub(crate) fn new(now: Instant, opening: Option<Bytes>, buffer: SendBuffer) -> Self {
        Self {
            queue: VecDeque::new(),
            tail: BytesMut::new(),
            buffer,
            next: StreamOffset::new(0),
            opened: opening.is_some(),
            opening,
            end: End::Open,
            used: 0,
            limit: BASE_CREDIT,
            unacknowledged: 0,
            express: Allowance {
                left: EXPRESS_BYTES,
                since: now,
            },
            enlisted: None,
            write_blocked: false,
        }
    }

    /// Gives the metadata of the opening chunk; does nothing the second time.
    pub(crate) fn open(&mut self, metadata: Bytes) {
        if !std::mem::replace(&mut self.opened, true) {
            self.opening = Some(metadata);
        }
    }

    /// Takes as much of `bytes` as the buffer has room for, without copying unless they are few.
    /// The opening chunk waits no longer.
    pub(crate) fn write(&mut self, bytes: &mut Bytes) -> Result<usize, StreamError> {
        let room = self.room()?;
        self.open(Bytes::new());
        let taken = bytes.split_to(bytes.len().min(room));
        let length = taken.len();
        if length < SHORT_WRITE {
            self.gather(&taken);
        } else {
            self.flush_tail();
            self.queue.push_back(taken);
        }
        self.buffer.add(length as u64);
        Ok(length)
    }

    /// As [`SendStream::write`], copying the bytes.
    pub(crate) fn write_slice(&mut self, bytes: &[u8]) -> Result<usize, StreamError> {
        let room = self.room()?;
        self.open(Bytes::new());
        let taken = &bytes[..bytes.len().min(room)];
        if taken.len() < SHORT_WRITE {
            self.gather(taken);
        } else {
            self.flush_tail();
            self.queue.push_back(Bytes::copy_from_slice(taken));
        }
        self.buffer.add(taken.len() as u64);
        Ok(taken.len())
    }

    /// Returns how many bytes the buffer has room for.
    pub(crate) fn room(&self) -> Result<usize, StreamError> {
        if self.end != End::Open {
            return Err(StreamError::Finished);
        }
        Ok(self.buffer.limit().saturating_sub(self.queued()) as usize)
    }

    /// Notes that the application waits for room in the buffer.
    pub(crate) fn block_writer(&mut self) {
        self.write_blocked = true;
    }

    /// True once, when there is room again for an application that waits for it.
    pub(crate) fn unblock_writer(&mut self) -> bool {
        let unblocks = self.write_blocked && self.has_room();
        self.write_blocked &= !unblocks;
        unblocks
    }

    /// Enlists the stream for its turn if it has something to send and is not enlisted yet. Returns
    /// the kind of channel that its next chunk belongs on. `limit`: bytes that count as small.
    pub(crate) fn enlist(&mut self, now: Instant, limit: u64) -> Option<ChannelRole> {
        if self.enlisted.is_some() {
            return None;
        }
        self.sendable()?;
        self.enlisted = Some(self.role(now, limit));
        self.enlisted
    }

    /// True if the stream waits for its turn.
    pub(crate) fn is_enlisted(&self) -> bool {
        self.enlisted.is_some()
    }

    /// Takes the stream out of those that wait for their turn.
    pub(crate) fn delist(&mut self) {
        self.enlisted = None;
    }

    /// No more will be written.
    pub(crate) fn finish(&mut self) {
        if self.end == End::Open {
            self.end = End::Finished;
        }
    }

    /// Nothing more is sent but the opening chunk; `unacknowledged`: chunks that the peer is still
    /// to hold.
    pub(crate) fn end_early(&mut self, unacknowledged: u64) {
        self.queue.clear();
        self.tail.clear();
        self.buffer.clear();
        self.end = End::Early;
        self.unacknowledged = unacknowledged;
        self.write_blocked = false;
    }

    /// True if this direction ended before its end.
    pub(crate) fn has_ended_early(&self) -> bool {
        self.end == End::Early
    }

    /// The end was sent and everything is acknowledged.
    pub(crate) fn is_acknowledged(&self) -> bool {
        let is_cut = matches!(self.end, End::Cut | End::Early);
        is_cut && self.unacknowledged == 0 && self.opening.is_none()
    }

    /// The buffer has room again after being full.
    fn has_room(&self) -> bool {
        self.queued() <= self.buffer.limit() / 2
    }

    /// Bytes that wait for a chunk.
    pub(crate) fn queued(&self) -> u64 {
        self.buffer.queued()
    }

    /// Bytes cut so far.
    pub(crate) fn sent(&self) -> u64 {
        self.next.value()
    }

    /// Returns how many bytes the next chunk could have; `None` when there is nothing to send now.
    /// `Some(0)`: only an opening or an end waits.
    pub(crate) fn sendable(&self) -> Option<u64> {
        let data = self.queued().min(self.limit.saturating_sub(self.used));
        let bare = self.opening.is_some() || (self.end == End::Finished && self.queued() == 0);
        // Credit below the least charge would be overdrawn by any chunk.
        let affordable = self.used + charge(data as usize) <= self.limit;
        if data > 0 && affordable {
            Some(data)
        } else {
            bare.then_some(0)
        }
    }

    /// Data waits that the peer's credit does not allow to send.
    pub(crate) fn is_credit_blocked(&self) -> bool {
        self.queued() > 0 && self.sendable().is_none_or(|bytes| bytes == 0)
    }

    /// The application writes as fast as its buffer allows, so that what is queued is not all.
    pub(crate) fn has_more(&self) -> bool {
        self.end == End::Open && self.queued() >= self.buffer.limit() / 4
    }

    /// Returns how much more the peer's credit allows to send.
    pub(crate) fn credit(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }

    /// New and small streams go ahead: which kind of channel the next chunk belongs on. `limit`:
    /// how many bytes count as small where the links are slow.
    fn role(&mut self, now: Instant, limit: u64) -> ChannelRole {
        let limit = limit.min(EXPRESS_BYTES);
        let small = self.queued() <= self.express.left(now).min(limit);
        if small || self.sent() < limit {
            ChannelRole::Express
        } else {
            ChannelRole::Bulk
        }
    }

    /// Cuts the next chunk, of at most `max` bytes of payload.
    pub(crate) fn cut(&mut self, max: usize) -> Option<Cut> {
        let sendable = usize::try_from(self.sendable()?).unwrap_or(usize::MAX);
        let mut payload = Payload::new();
        let mut length = 0;
        let wanted = sendable.min(max.max(1));
        while length < wanted && payload.len() < MAX_PIECES {
            let piece = self.take(wanted - length);
            length += piece.len();
            payload.push(piece);
        }
        self.buffer.take(length as u64);
        let offset = self.next;
        self.next = self.next.advance(length as u64);
        self.used += charge(length);
        self.unacknowledged += 1;
        self.express.left = self.express.left.saturating_sub(length as u64);
        let fin = self.end == End::Finished && self.queued() == 0;
        if fin {
            self.end = End::Cut;
        }
        let opening = self.opening.take();
        let flags = ChunkFlags {
            open: opening.is_some(),
            fin,
        };
        Some(Cut {
            offset,
            flags,
            metadata: opening.unwrap_or_default(),
            payload,
            length,
        })
    }

    /// The peer holds one more chunk.
    pub(crate) fn on_acknowledged(&mut self) {
        self.unacknowledged = self.unacknowledged.saturating_sub(1);
    }

    /// The peer allows `limit` units in total; less than before changes nothing.
    pub(crate) fn on_credit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Returns the peer's limit.
    #[cfg(test)]
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn gather(&mut self, bytes: &[u8]) {
        if self.tail.len() + bytes.len() > GATHERED {
            self.flush_tail();
        }
        self.tail.extend_from_slice(bytes);
    }

    fn flush_tail(&mut self) {
        if !self.tail.is_empty() {
            self.queue
                .push_back(std::mem::take(&mut self.tail).freeze());
        }
    }

    /// Up to `max` bytes off the front; never empty while bytes are queued.
    fn take(&mut self, max: usize) -> Bytes {
        if let Some(front) = self.queue.front_mut() {
            if front.len() > max {
                return front.split_to(max);
            }
            return self.queue.pop_front().unwrap_or_default();
        }
        let length = self.tail.len().min(max);
        self.tail.split_to(length).freeze()
    }
}

/// Bytes that a stream may still send ahead of bulk. It starts full, so that every stream's
/// beginning goes ahead, and refills slowly, so that a stream which says little stays ahead.
#[derive(Debug)]
struct Allowance {
    left: u64,
    since: Instant,
}

impl Allowance {
    fn left(&mut self, now: Instant) -> u64 {
        let ticks = now.since(self.since).as_nanos() / EXPRESS_REFILL.as_nanos();
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        if ticks > 0 {
            self.since = now;
            self.left = self
                .left
                .saturating_add(ticks.saturating_mul(1024))
                .min(EXPRESS_BYTES);
        }
        self.left
    }
}

/// Writes below this many bytes are copied into pieces of up to 32 KiB; longer ones are kept as
/// they are.
pub const SHORT_WRITE: usize = 8 * 1024;
const GATHERED: usize = 32 * 1024;
/// The most pieces of memory that one chunk gathers.
const MAX_PIECES: usize = 32;
/// The first 64 KiB of every stream go ahead of bulk.
const EXPRESS_BYTES: u64 = 64 * 1024;
/// A KiB of allowance comes back in each such span: 128 kbit/s, more than a call or a shell needs.
const EXPRESS_REFILL: Duration = Duration::from_millis(62);

#[cfg(test)]
mod tests {
    use hawser_types::ByteCount;

    use super::*;
    use crate::stream::send_buffers::SendBuffers;

    fn stream() -> SendStream {
        let buffer = SendBuffers::new(ByteCount::from_mib(64)).buffer();
        SendStream::new(Instant::ZERO, Some(Bytes::from_static(b"meta")), buffer)
    }

    #[test]
    fn the_opening_goes_alone_or_with_the_first_data() {
        let mut alone = stream();
        assert_eq!(alone.sendable(), Some(0));
        let cut = alone.cut(1000).unwrap();
        assert!(cut.flags.open && !cut.flags.fin && cut.length == 0);
        assert!(alone.cut(1000).is_none());

        let mut together = stream();
        together.write_slice(b"data").unwrap();
        together.finish();
        let cut = together.cut(1000).unwrap();
        assert!(cut.flags.open && cut.flags.fin && cut.length == 4);
        assert_eq!(together.sendable(), None);
        assert!(!together.is_acknowledged());
        together.on_acknowledged();
        assert!(together.is_acknowledged());
    }

    #[test]
    fn small_chunks_use_up_credit_faster_than_bytes() {
        let mut stream = stream();
        let mut sent = 0;
        loop {
            stream.write_slice(b"x").unwrap();
            let Some(cut) = stream.cut(1).filter(|cut| cut.length > 0) else {
                break;
            };
            sent += cut.length as u64;
        }
        assert_eq!(sent, BASE_CREDIT / 256);
        assert!(stream.is_credit_blocked());
        stream.on_credit(BASE_CREDIT + 256);
        assert_eq!(stream.cut(9).unwrap().length, 1);
    }

    #[test]
    fn the_buffer_refuses_more_than_it_holds() {
        let mut stream = stream();
        let mut big = Bytes::from(vec![0; 3 << 20]);
        assert_eq!(stream.write(&mut big), Ok(1 << 20));
        assert_eq!(big.len(), 2 << 20);
        assert_eq!(stream.write(&mut big), Ok(0));
        assert!(!stream.has_room());
        stream.finish();
        assert_eq!(stream.write(&mut big), Err(StreamError::Finished));
    }

    #[test]
    fn bytes_leave_in_the_order_they_were_written() {
        let mut stream = stream();
        let mut expected = Vec::new();
        for size in [3, 9000, 1, 20_000, 5, 70_000, 300_000, 7] {
            let piece: Vec<u8> = (0..size).map(|n| (n + size) as u8).collect();
            stream.write_slice(&piece).unwrap();
            expected.extend(piece);
        }
        stream.on_credit(1 << 20);
        let mut got = Vec::new();
        while let Some(cut) = stream.cut(4096) {
            assert_eq!(cut.offset.value(), got.len() as u64);
            cut.payload
                .iter()
                .for_each(|piece| got.extend_from_slice(piece));
        }
        assert_eq!(got, expected);
    }

    #[test]
    fn a_stream_turns_to_bulk_after_its_beginning_and_back_when_it_says_little() {
        let mut stream = stream();
        stream.on_credit(1 << 20);
        assert_eq!(stream.role(Instant::ZERO, u64::MAX), ChannelRole::Express);
        stream.write_slice(&[0; 5_000]).unwrap();
        assert_eq!(stream.role(Instant::ZERO, 4_096), ChannelRole::Express);
        stream.cut(4_500).unwrap();
        assert_eq!(stream.role(Instant::ZERO, 400), ChannelRole::Bulk);
        stream.write_slice(&[0; 70_000]).unwrap();
        while stream.cut(10_000).is_some() {}
        stream.write_slice(&[0; 1000]).unwrap();
        assert_eq!(stream.role(Instant::ZERO, u64::MAX), ChannelRole::Bulk);
        let later = Instant::ZERO + EXPRESS_REFILL;
        assert_eq!(stream.role(later, u64::MAX), ChannelRole::Express);
    }
}
