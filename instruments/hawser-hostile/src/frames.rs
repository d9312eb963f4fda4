//! Bodies of records, as scripts write them.

use bytes::{BufMut as _, Bytes, BytesMut};
use hawser_types::{ChannelId, SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{ChunkFlags, ChunkHeader, StateFrame, put_varint};

/// No flags.
pub(crate) const NO_FLAGS: ChunkFlags = ChunkFlags {
    open: false,
    fin: false,
};
/// The first chunk of a stream.
pub(crate) const OPEN: ChunkFlags = ChunkFlags {
    open: true,
    fin: false,
};
/// The last chunk of a stream.
pub(crate) const FIN: ChunkFlags = ChunkFlags {
    open: false,
    fin: true,
};

/// Appends a chunk that neither opens nor ends its stream.
pub(crate) fn data(stream: u64, offset: u64, payload: &[u8], out: &mut BytesMut) {
    chunk((stream, offset), NO_FLAGS, &[], payload, out);
}

/// Appends a chunk at `(stream, offset)`. All have segment number 0, which is for diagnosis only.
pub(crate) fn chunk(
    (stream, offset): (u64, u64),
    flags: ChunkFlags,
    metadata: &[u8],
    payload: &[u8],
    out: &mut BytesMut,
) {
    let header = ChunkHeader {
        stream: StreamId::new(stream),
        segment: SegmentNumber::default(),
        offset: StreamOffset::new(offset),
        flags,
        metadata: Bytes::copy_from_slice(metadata),
    };
    header.encode(out);
    out.extend_from_slice(payload);
}

/// Appends an acknowledgement.
pub(crate) fn ack(channel: u32, records: u64, out: &mut BytesMut) {
    let channel = ChannelId::new(channel);
    StateFrame::Ack { channel, records }.encode(out);
}

/// Appends a grant of credit.
pub(crate) fn credit(stream: u64, limit: u64, out: &mut BytesMut) {
    let stream = StreamId::new(stream);
    StateFrame::Credit { stream, limit }.encode(out);
}

/// Appends a frame of an unknown type that may be skipped, with so many bytes of value.
pub(crate) fn padding(bytes: usize, out: &mut BytesMut) {
    out.put_u8(UNKNOWN);
    put_varint(out, bytes as u64);
    out.put_bytes(0, bytes);
}

/// A reserved type that is not critical.
const UNKNOWN: u8 = 0x20;
