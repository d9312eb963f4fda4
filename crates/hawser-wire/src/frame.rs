use bytes::{Buf, BufMut, Bytes};
use hawser_types::{ChannelId, SegmentNumber, StreamGroup, StreamId, StreamOffset};

use crate::association::take_link;
use crate::numbers::{CRITICAL, FrameKind};
use crate::varint::{take_length, take_varint_u32};
use crate::{MAX_RECORD_BODY, Malformed, MalformedReason, put_varint, take_varint};

/// Maximum length of the metadata of a stream's opening chunk.
pub const MAX_OPEN_METADATA: usize = 1024;

/// Maximum length of a datagram: that of UDP over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;

/// Role of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelRole {
    /// Carries bulk data.
    Bulk,
    /// Kept idle for commands, state, interactive streams and the beginnings of streams.
    Express,
}

/// One element of a record's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A piece of state; the newest wins.
    State(StateFrame),
    /// A datagram of a stream: neither repeated nor ordered.
    ///
    /// Source: RFC 9221; RFC 9297 §2 (the association with a stream).
    Datagram(StreamId, Bytes),
    /// A chunk and its payload; always the last frame of its record.
    Chunk(ChunkHeader, Bytes),
}

/// Idempotent state: a repeated or outdated frame changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateFrame {
    /// The first `records` records of the peer's direction of `channel` have arrived and will be
    /// kept.
    Ack {
        /// The channel that is acknowledged; not always the one that carries the frame.
        channel: ChannelId,
        /// How many records, counted from the channel's first.
        records: u64,
    },
    /// The peer may send on `stream` until `limit` units of credit are used.
    Credit {
        /// The stream.
        stream: StreamId,
        /// Total units since the stream began; each chunk uses max(its bytes, 256).
        limit: u64,
    },
    /// First frame on a channel: its role. The answer repeats it.
    Join {
        /// Bulk or express.
        role: ChannelRole,
        /// The client's number for the link; it only tells paths apart.
        link: u32,
    },
    /// Has no content; its arrival and TCP's acknowledgement show that the path works.
    Heartbeat,
    /// The sender's measurements of a channel.
    Path(PathReport),
    /// The chunk at the end of this record opens a stream of a group.
    Group {
        /// The stream.
        stream: StreamId,
        /// The group. At both ends its streams share turns, and groups take turns with each other.
        group: StreamGroup,
    },
    /// Segments of the sender do not arrive over a link, though shorter ones do.
    SegmentsLost {
        /// The client's number for the link.
        link: u32,
        /// Bytes of payload in the smallest segment that was lost.
        size: u32,
    },
}

/// Measurements of a channel at one end. Of two about the same channel the later stamp counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// The channel; not always the one that carries the frame.
    pub channel: ChannelId,
    /// Time of the report in microseconds of a monotonic clock of the sender. On the channel it
    /// describes, its delay is that of the channel.
    pub stamp: u64,
    /// Data of the sender on the channel is overdue for acknowledgement.
    pub silent: bool,
    /// Queueing delay of data to the sender in microseconds, if known.
    pub queue: Option<u64>,
    /// Arrival rate of chunks at the sender since its last report, in bytes per second.
    pub rate: u64,
}

/// The flags of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChunkFlags {
    /// The first chunk of this direction of the stream; metadata follows the header.
    pub open: bool,
    /// This direction of the stream ends with the last byte of this chunk.
    pub fin: bool,
}

/// Header of a chunk.
///
/// Source: PATTHEL §III.D fig. 3 (stream offset), BATCP §3.6 (segment number).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The stream.
    pub stream: StreamId,
    /// Number of the chunk among all chunks of its sender; kept when it is sent again.
    pub segment: SegmentNumber,
    /// Position of the payload's first byte in the stream.
    pub offset: StreamOffset,
    /// Flags for the opening and the end of the stream.
    pub flags: ChunkFlags,
    /// With [`ChunkFlags::open`]: metadata from the opener, or from the acceptor in reply; empty
    /// otherwise. At most [`MAX_OPEN_METADATA`] bytes.
    pub metadata: Bytes,
}

impl Frame {
    /// Returns its type.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::State(frame) => frame.kind(),
            Self::Datagram(..) => FrameKind::Datagram,
            Self::Chunk(..) => FrameKind::Chunk,
        }
    }
}

impl StateFrame {
    /// Returns its type.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Ack { .. } => FrameKind::Ack,
            Self::Credit { .. } => FrameKind::Credit,
            Self::Join { .. } => FrameKind::Join,
            Self::Heartbeat => FrameKind::Heartbeat,
            Self::Path(_) => FrameKind::Path,
            Self::Group { .. } => FrameKind::Group,
            Self::SegmentsLost { .. } => FrameKind::SegmentsLost,
        }
    }

    /// Appends the frame to a record's body.
    pub fn encode(&self, out: &mut impl BufMut) {
        let kind = self.kind();
        match *self {
            Self::Ack { channel, records } => {
                put_numbers(out, kind, &[u64::from(channel.value()), records]);
            }
            Self::Credit { stream, limit } => put_numbers(out, kind, &[stream.value(), limit]),
            Self::Join { role, link } => {
                let express = u64::from(role == ChannelRole::Express);
                put_numbers(out, kind, &[express, u64::from(link)]);
            }
            Self::Heartbeat => put_numbers(out, kind, &[]),
            Self::Path(report) => put_numbers(out, kind, &report.numbers()),
            Self::Group { stream, group } => {
                put_numbers(out, kind, &[stream.value(), group.value().into()]);
            }
            Self::SegmentsLost { link, size } => {
                put_numbers(out, kind, &[link.into(), size.into()]);
            }
        }
    }

    /// Reads the value of a frame of this kind; `None` if it is no state.
    fn decode(kind: FrameKind, mut value: Bytes) -> Result<Option<Self>, Malformed> {
        let frame = match kind {
            FrameKind::Ack => Self::Ack {
                channel: ChannelId::new(take_varint_u32(&mut value, "ack")?),
                records: take_varint(&mut value, "ack")?,
            },
            FrameKind::Credit => Self::Credit {
                stream: StreamId::new(take_varint(&mut value, "credit")?),
                limit: take_varint(&mut value, "credit")?,
            },
            FrameKind::Join => Self::Join {
                role: match take_varint(&mut value, "join")? {
                    0 => ChannelRole::Bulk,
                    1 => ChannelRole::Express,
                    _ => return Err(Malformed::new("join", MalformedReason::BadValue)),
                },
                link: take_link(&mut value, "join")?,
            },
            FrameKind::Heartbeat => Self::Heartbeat,
            FrameKind::Path => Self::Path(PathReport::decode(&mut value)?),
            FrameKind::Group => Self::Group {
                stream: StreamId::new(take_varint(&mut value, "group")?),
                group: StreamGroup::new(take_varint_u32(&mut value, "group")?),
            },
            FrameKind::SegmentsLost => Self::SegmentsLost {
                link: take_link(&mut value, "segments lost")?,
                size: take_varint_u32(&mut value, "segments lost")?,
            },
            FrameKind::Datagram | FrameKind::Chunk => return Ok(None),
        };
        if value.has_remaining() {
            return Err(Malformed::new("frame", MalformedReason::TrailingBytes));
        }
        Ok(Some(frame))
    }
}

/// Returns the length of a datagram's frame, for a payload of `payload` bytes.
pub const fn datagram_length(stream: StreamId, payload: usize) -> usize {
    let length = crate::varint_length(stream.value()) + payload;
    1 + crate::varint_length(length as u64) + length
}

/// Appends a datagram's frame to a record's body.
pub fn put_datagram(stream: StreamId, payload: &[u8], out: &mut impl BufMut) {
    out.put_u8(FrameKind::Datagram.number());
    let length = crate::varint_length(stream.value()) + payload.len();
    put_varint(out, length as u64);
    put_varint(out, stream.value());
    out.put_slice(payload);
}

fn take_datagram(mut value: Bytes) -> Result<Frame, Malformed> {
    const WHAT: &str = "datagram";
    let stream = StreamId::new(take_varint(&mut value, WHAT)?);
    if value.len() > MAX_DATAGRAM {
        return Err(Malformed::new(WHAT, MalformedReason::TooLarge));
    }
    Ok(Frame::Datagram(stream, value))
}

impl PathReport {
    fn numbers(&self) -> [u64; 5] {
        let queue = self.queue.map_or(0, |queue| queue.saturating_add(1));
        [
            u64::from(self.channel.value()),
            self.stamp,
            u64::from(self.silent),
            queue,
            self.rate,
        ]
    }

    fn decode(value: &mut Bytes) -> Result<Self, Malformed> {
        const WHAT: &str = "path report";
        Ok(Self {
            channel: ChannelId::new(take_varint_u32(value, WHAT)?),
            stamp: take_varint(value, WHAT)?,
            silent: match take_varint(value, WHAT)? {
                0 => false,
                1 => true,
                _ => return Err(Malformed::new(WHAT, MalformedReason::BadValue)),
            },
            queue: take_varint(value, WHAT)?.checked_sub(1),
            rate: take_varint(value, WHAT)?,
        })
    }
}

impl ChunkHeader {
    /// Returns the length of the header with its metadata, in bytes.
    pub fn length(&self) -> usize {
        let numbers = [
            self.stream.value(),
            self.segment.value(),
            self.offset.value(),
        ];
        let numbers: usize = numbers.into_iter().map(crate::varint_length).sum();
        let metadata = if self.flags.open {
            crate::varint_length(self.metadata.len() as u64) + self.metadata.len()
        } else {
            0
        };
        1 + numbers + metadata
    }

    /// Appends the header, with its metadata; the payload follows it up to the record's end.
    pub fn encode(&self, out: &mut impl BufMut) {
        let flags = (self.flags.open as u8 * FLAG_OPEN) | (self.flags.fin as u8 * FLAG_FIN);
        out.put_u8(FrameKind::Chunk.number() | flags);
        put_varint(out, self.stream.value());
        put_varint(out, self.segment.value());
        put_varint(out, self.offset.value());
        if self.flags.open {
            put_varint(out, self.metadata.len() as u64);
            out.put_slice(&self.metadata);
        }
    }

    fn decode(kind: u8, input: &mut Bytes) -> Result<Self, Malformed> {
        const WHAT: &str = "chunk header";
        if kind & !(FrameKind::Chunk.number() | FLAG_OPEN | FLAG_FIN) != 0 {
            return Err(Malformed::new(WHAT, MalformedReason::Reserved));
        }
        let stream = StreamId::new(take_varint(input, WHAT)?);
        let segment = SegmentNumber::new(take_varint(input, WHAT)?);
        let offset = StreamOffset::new(take_varint(input, WHAT)?);
        let flags = ChunkFlags {
            open: kind & FLAG_OPEN != 0,
            fin: kind & FLAG_FIN != 0,
        };
        if flags.open && offset.value() != 0 {
            return Err(Malformed::new(WHAT, MalformedReason::BadValue));
        }
        let metadata = if flags.open {
            let length = take_length(input, MAX_OPEN_METADATA, "opening metadata")?;
            input.split_to(length)
        } else {
            Bytes::new()
        };
        Ok(Self {
            stream,
            segment,
            offset,
            flags,
            metadata,
        })
    }
}

/// Iterator over the frames of an opened record's body. Unknown frames that are not critical are
/// skipped. After an error it ends.
#[derive(Debug)]
pub struct FrameIterator {
    rest: Bytes,
}

impl FrameIterator {
    /// Creates an iterator over `body`; payloads are slices of it.
    pub const fn new(body: Bytes) -> Self {
        Self { rest: body }
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, Malformed> {
        while self.rest.has_remaining() {
            let byte = self.rest.get_u8();
            let kind = FrameKind::of_byte(byte);
            if kind == Some(FrameKind::Chunk) {
                let header = ChunkHeader::decode(byte, &mut self.rest)?;
                return Ok(Some(Frame::Chunk(header, std::mem::take(&mut self.rest))));
            }
            let length = take_length(&mut self.rest, MAX_RECORD_BODY, "frame")?;
            let value = self.rest.split_to(length);
            match kind {
                Some(FrameKind::Datagram) => return take_datagram(value).map(Some),
                Some(kind) => {
                    if let Some(frame) = StateFrame::decode(kind, value)? {
                        return Ok(Some(Frame::State(frame)));
                    }
                }
                None if byte & CRITICAL != 0 => {
                    return Err(Malformed::new("frame", MalformedReason::UnknownCritical));
                }
                None => {}
            }
        }
        Ok(None)
    }
}

impl Iterator for FrameIterator {
    type Item = Result<Frame, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let frame = self.next_frame();
        if frame.is_err() {
            self.rest = Bytes::new();
        }
        frame.transpose()
    }
}

/// Writes a state frame whose value is a sequence of varints.
fn put_numbers(out: &mut impl BufMut, kind: FrameKind, numbers: &[u64]) {
    // A connection that does not know how a channel begins can't go on.
    let is_critical = kind == FrameKind::Join;
    out.put_u8(kind.number() | if is_critical { CRITICAL } else { 0 });
    let length: usize = numbers
        .iter()
        .map(|number| crate::varint_length(*number))
        .sum();
    put_varint(out, length as u64);
    for number in numbers {
        put_varint(out, *number);
    }
}

const FLAG_OPEN: u8 = 0x01;
const FLAG_FIN: u8 = 0x02;

#[cfg(test)]
mod tests;
