use bytes::{Buf, Bytes};

use super::compact::{WHOLE, is_foreign, take_data};
use super::element::{Element, padding};
use super::{
    ChecksumRule, Chunk, ChunkKind, CommonHeader, Framing, PACKET_HEADER_LENGTH, VerificationTag,
    decode,
};
use crate::{Malformed, MalformedReason};

/// A received packet; its checksum is correct, its chunks are not decoded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The sender's SCTP port.
    pub source_port: u16,
    /// The receiver's SCTP port.
    pub destination_port: u16,
    /// Verification tag.
    pub tag: VerificationTag,
    framing: Framing,
    chunks: Bytes,
}

impl Packet {
    /// Decodes the header and verifies the checksum.
    ///
    /// # Errors
    /// `Truncated` when there is no room for a chunk, `BadValue` when the checksum is wrong. By RFC
    /// 9260 §6.8, such a packet is dropped without an answer.
    pub fn decode(mut datagram: Bytes, checksum: ChecksumRule) -> Result<Self, Malformed> {
        let Some((header, chunks)) = datagram.split_first_chunk::<PACKET_HEADER_LENGTH>() else {
            return Err(Malformed::truncated("SCTP packet"));
        };
        if chunks.is_empty() {
            return Err(Malformed::truncated("SCTP packet"));
        }
        if !checksum.accepts(header, chunks) {
            return Err(Malformed::new("SCTP checksum", MalformedReason::BadValue));
        }
        let [s0, s1, d0, d1, t0, t1, t2, t3, ..] = *header;
        datagram.advance(PACKET_HEADER_LENGTH);
        Ok(Self {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            tag: VerificationTag::new(u32::from_be_bytes([t0, t1, t2, t3])),
            framing: Framing::Whole,
            chunks: datagram,
        })
    }

    /// Decodes sealed content: a compact packet of the association with these `names`, or a whole
    /// packet.
    ///
    /// # Errors
    /// As [`Self::decode`]; and `BadValue` for a compact packet while there is no association yet.
    pub fn decode_sealed(
        mut datagram: Bytes,
        names: Option<CommonHeader>,
    ) -> Result<Self, Malformed> {
        if datagram.starts_with(&WHOLE) {
            datagram.advance(WHOLE.len());
            return Self::decode(datagram, ChecksumRule::Zero);
        }
        if datagram.is_empty() {
            return Err(Malformed::truncated("compact packet"));
        }
        let unknown = Malformed::new("compact packet", MalformedReason::BadValue);
        let names = names.ok_or(unknown)?;
        Ok(Self {
            source_port: names.source_port,
            destination_port: names.destination_port,
            tag: names.tag,
            framing: Framing::Compact,
            chunks: datagram,
        })
    }

    /// Returns the size in bytes, with the header.
    pub fn size(&self) -> usize {
        self.framing.packet_header() + self.chunks.len()
    }

    /// Iterates over the chunks in order. Payloads are slices of the datagram.
    pub fn chunks(&self) -> Chunks {
        Chunks {
            rest: self.chunks.clone(),
            framing: self.framing,
            is_first: true,
        }
    }
}

/// Iterator over the chunks of a [`Packet`]; an error is the last item, since the chunks after it
/// cannot be found.
#[derive(Clone, Debug)]
pub struct Chunks {
    rest: Bytes,
    framing: Framing,
    is_first: bool,
}

impl Iterator for Chunks {
    type Item = Result<Chunk, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = match self.framing {
            Framing::Whole => self.take(),
            Framing::Compact => self.take_compact(),
        };
        let item = taken.transpose();
        self.is_first = false;
        if matches!(item, Some(Err(_))) {
            self.rest.clear();
        }
        item
    }
}

impl Chunks {
    fn take(&mut self) -> Result<Option<Chunk>, Malformed> {
        let Some(element) = Element::take(&mut self.rest, "SCTP chunk")? else {
            return Ok(None);
        };
        let is_alone = self.is_first && self.rest.is_empty();
        if is_single(element.head[0]) && !is_alone {
            // Source: RFC 9260 §4.3.
            return Err(Malformed::new(
                "bundle of SCTP chunks",
                MalformedReason::TrailingBytes,
            ));
        }
        decode::chunk(element).map(Some)
    }

    fn take_compact(&mut self) -> Result<Option<Chunk>, Malformed> {
        let before = self.rest.len();
        if let Some(data) = take_data(&mut self.rest)? {
            let taken = before - self.rest.len();
            self.rest.advance(padding(taken).min(self.rest.len()));
            return Ok(Some(Chunk::Data(data)));
        }
        let Some(element) = Element::take(&mut self.rest, "SCTP chunk")? else {
            return Ok(None);
        };
        if is_foreign(element.head[0]) {
            return Err(Malformed::new("compact packet", MalformedReason::BadValue));
        }
        decode::chunk(element).map(Some)
    }
}

/// Tells whether chunks of this type must be alone in their packets.
fn is_single(kind: u8) -> bool {
    matches!(
        ChunkKind::of_number(kind),
        Some(ChunkKind::Init | ChunkKind::InitAck | ChunkKind::ShutdownComplete)
    )
}
