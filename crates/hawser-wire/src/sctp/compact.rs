//! Compact packets, under a seal that identifies the association.
//!
//! A compact packet has no common header. Its chunks are unchanged except I-DATA, which states each
//! value once and in as few bytes as possible. `docs/protocol.md`, section 15.1, has the bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{ChunkKind, Data, DataOrder, StreamNumber, Tsn, flag};
use crate::varint::{put_varint, take_varint_u32};
use crate::{Malformed, MalformedReason};

/// Writes I-DATA with `front` before its payload; `ends`: nothing follows it in its packet.
pub(super) fn put_data(
    out: &mut BytesMut,
    front: &[u8],
    data: &Data,
    (message, fragment): (u32, u32),
    ends: bool,
) {
    let flags = [
        (data.last, flag::LAST),
        (data.first, flag::FIRST),
        (data.unordered, flag::UNORDERED),
        (data.immediate, flag::IMMEDIATE),
        (!ends, HAS_LENGTH),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    out.put_u8(flags.fold(ChunkKind::IData.number(), |all, (_, flag)| all | flag));
    if !ends {
        // A payload too long for the field is too long for the packet; the writer checks that.
        let length = front.len() + data.payload.len();
        out.put_u16(u16::try_from(length).unwrap_or(u16::MAX));
    }
    out.put_u32(data.tsn.value());
    put_varint(out, data.stream.value().into());
    put_varint(out, message.into());
    let shared = if data.first { data.protocol } else { fragment };
    put_varint(out, shared.into());
    out.put_slice(front);
    out.put_slice(&data.payload);
}

/// Reads I-DATA at the front; `None` if another chunk is there.
pub(super) fn take_data(rest: &mut Bytes) -> Result<Option<Data>, Malformed> {
    let Some(&first_byte) = rest
        .first()
        .filter(|byte| **byte & !FLAGS == ChunkKind::IData.number())
    else {
        return Ok(None);
    };
    if first_byte & RESERVED != 0 {
        return Err(Malformed::new(WHAT, MalformedReason::BadValue));
    }
    rest.advance(KIND);
    let truncated = |_| Malformed::truncated(WHAT);
    let length = if first_byte & HAS_LENGTH != 0 {
        Some(rest.try_get_u16().map_err(truncated)?)
    } else {
        None
    };
    let tsn = Tsn::new(rest.try_get_u32().map_err(truncated)?);
    let stream = u16::try_from(take_varint_u32(rest, WHAT)?)
        .map_err(|_| Malformed::new(WHAT, MalformedReason::TooLarge))?;
    let message = take_varint_u32(rest, WHAT)?;
    let shared = take_varint_u32(rest, WHAT)?;
    let length = length.map_or(rest.len(), usize::from);
    if length > rest.len() {
        return Err(Malformed::truncated(WHAT));
    }
    let payload = rest.split_to(length);
    let first = first_byte & flag::FIRST != 0;
    let (protocol, fragment) = if first { (shared, 0) } else { (0, shared) };
    Ok(Some(Data {
        tsn,
        stream: StreamNumber::new(stream),
        order: DataOrder::Interleaved { message, fragment },
        unordered: first_byte & flag::UNORDERED != 0,
        first,
        last: first_byte & flag::LAST != 0,
        immediate: first_byte & flag::IMMEDIATE != 0,
        protocol,
        payload,
    }))
}

/// Tells whether a chunk is not allowed in a compact packet: those that set up or end an
/// association, where tags matter, and those whose types have another meaning.
pub(super) const fn is_foreign(kind: u8) -> bool {
    use ChunkKind::{
        Abort, CookieAck, CookieEcho, Init, InitAck, Shutdown, ShutdownAck, ShutdownComplete,
    };
    let needs_tag = matches!(
        ChunkKind::of_number(kind),
        Some(
            Init | InitAck
                | CookieEcho
                | CookieAck
                | Abort
                | Shutdown
                | ShutdownAck
                | ShutdownComplete
        )
    );
    needs_tag || kind == WHOLE_KIND || kind & !FLAGS == ChunkKind::IData.number()
}

const WHAT: &str = "compact I-DATA";
/// Prefix of a whole packet under a seal: a type that no chunk has, and zeros.
pub(super) const WHOLE: [u8; 4] = [WHOLE_KIND, 0, 0, 0];
const WHOLE_KIND: u8 = 0xFF;
const FLAGS: u8 = 0x3F;
/// Flag: the payload's length is present, since a chunk may follow.
const HAS_LENGTH: u8 = 0x10;
/// Reserved flag.
const RESERVED: u8 = 0x20;
/// Length of type and flags.
pub(super) const KIND: usize = 1;
/// Length of a length field.
pub(super) const LENGTH: usize = 2;
/// Length of a TSN.
pub(super) const TSN: usize = 4;
