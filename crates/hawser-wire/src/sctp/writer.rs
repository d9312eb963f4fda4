use bytes::{BufMut, Bytes, BytesMut};

use super::checksum::crc32c;
use super::compact::{self, LENGTH, WHOLE, is_foreign};
use super::element::{ELEMENT_HEADER, pad, padding};
use super::encode::{put_chunk, put_data};
use super::{
    ChecksumRule, Chunk, CommonHeader, Data, DataOrder, Framing, PACKET_HEADER_LENGTH,
    VerificationTag,
};

/// Writer of a packet.
///
/// The caller ensures that INIT, INIT ACK and SHUTDOWN COMPLETE are alone.
#[derive(Debug)]
pub struct PacketWriter {
    packet: BytesMut,
    capacity: usize,
    framing: Framing,
    /// Start of the common header, if there is one.
    header: usize,
    /// Start of the first chunk.
    start: usize,
    /// No chunk may follow.
    is_full: bool,
    /// A chunk in it precedes the agreement on zero checksums.
    needs_checksum: bool,
}

impl PacketWriter {
    /// Begins a whole packet of at most `capacity` bytes with its header; the limit is 65535.
    pub fn new(
        source_port: u16,
        destination_port: u16,
        tag: VerificationTag,
        capacity: usize,
    ) -> Self {
        let names = CommonHeader {
            source_port,
            destination_port,
            tag,
        };
        let usual = capacity.clamp(PACKET_HEADER_LENGTH, USUAL_PACKET);
        Self::within(BytesMut::with_capacity(usual), names, capacity)
    }

    /// Begins a whole packet in existing memory, or in new memory for a few packets.
    pub fn within(memory: BytesMut, names: CommonHeader, capacity: usize) -> Self {
        let mut writer = Self::of(memory, Framing::Whole, capacity);
        writer.put_header(names);
        writer
    }

    /// Begins a whole packet for an endpoint that seals compact ones.
    pub fn sealed(memory: BytesMut, names: CommonHeader, capacity: usize) -> Self {
        let mut writer = Self::of(memory, Framing::Whole, capacity);
        writer.packet.put_slice(&WHOLE);
        writer.put_header(names);
        writer
    }

    /// Begins a compact packet, which has to be sealed.
    pub fn compact(memory: BytesMut, capacity: usize) -> Self {
        Self::of(memory, Framing::Compact, capacity)
    }

    fn of(memory: BytesMut, framing: Framing, capacity: usize) -> Self {
        let capacity = capacity.min(usize::from(u16::MAX));
        let mut packet = memory;
        packet.clear();
        if packet.capacity() < capacity.clamp(PACKET_HEADER_LENGTH, USUAL_PACKET) {
            packet.reserve(FEW_PACKETS);
        }
        Self {
            packet,
            capacity,
            framing,
            header: 0,
            start: 0,
            is_full: false,
            needs_checksum: false,
        }
    }

    fn put_header(&mut self, names: CommonHeader) {
        self.header = self.packet.len();
        self.packet.put_u16(names.source_port);
        self.packet.put_u16(names.destination_port);
        self.packet.put_u32(names.tag.value());
        self.packet.put_u32(0);
        self.start = self.packet.len();
    }

    /// Returns the maximum length of one more chunk, with its header and padding.
    pub fn room(&self) -> usize {
        if self.is_full {
            return 0;
        }
        let unit = self.framing.unit();
        let length = self.packet.len();
        let left = self.capacity.saturating_sub(length + padding(length));
        left - left % unit
    }

    /// Appends a chunk; `false` if it does not fit or is not allowed in this framing.
    pub fn put(&mut self, chunk: &Chunk) -> bool {
        if let Chunk::Data(data) = chunk {
            return self.put_data(data);
        }
        let start = self.packet.len();
        pad(&mut self.packet);
        let begin = self.packet.len();
        put_chunk(&mut self.packet, chunk);
        // The last chunk of a compact packet has no padding.
        if self.framing == Framing::Whole {
            pad(&mut self.packet);
        }
        let may = self.framing == Framing::Whole
            || !self.packet.get(begin).is_some_and(|kind| is_foreign(*kind));
        let fits = may && !self.is_full && self.packet.len() <= self.capacity;
        if fits {
            self.needs_checksum |= matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_));
        } else {
            self.packet.truncate(start);
        }
        fits
    }

    /// Appends DATA or I-DATA; `false` if it does not fit.
    pub fn put_data(&mut self, data: &Data) -> bool {
        self.put_data_behind(&[], data)
    }

    /// Appends DATA or I-DATA with `front` before its payload, as if it belonged to that; `false`
    /// if it does not fit.
    pub fn put_data_behind(&mut self, front: &[u8], data: &Data) -> bool {
        let length = self.framing.chunk_length_behind(front.len(), data);
        let fits = length <= self.room();
        if fits {
            pad(&mut self.packet);
            match (self.framing, data.order) {
                (Framing::Compact, DataOrder::Interleaved { message, fragment }) => {
                    let next = (self.packet.len() + length + LENGTH).next_multiple_of(4);
                    self.is_full = next + ELEMENT_HEADER > self.capacity;
                    let numbers = (message, fragment);
                    compact::put_data(&mut self.packet, front, data, numbers, self.is_full);
                }
                _ => {
                    put_data(&mut self.packet, front, data);
                    pad(&mut self.packet);
                }
            }
        }
        fits
    }

    /// Tells whether the packet has no chunks.
    pub fn is_empty(&self) -> bool {
        self.packet.len() == self.start
    }

    /// Returns the packet, with its checksum by the rule.
    pub fn finish(mut self, checksum: ChecksumRule) -> Bytes {
        self.write_checksum(checksum);
        self.packet.freeze()
    }

    /// Returns the packet, and the memory behind it for the next one. That memory is reused once
    /// the packet is dropped.
    pub fn finish_within(mut self, checksum: ChecksumRule) -> (Bytes, BytesMut) {
        self.write_checksum(checksum);
        let packet = self.packet.split().freeze();
        (packet, self.packet)
    }

    fn write_checksum(&mut self, checksum: ChecksumRule) {
        let written = checksum == ChecksumRule::Crc32c || self.needs_checksum;
        if self.framing == Framing::Whole
            && written
            && let Some((header, chunks)) = self.packet[self.header..].split_first_chunk_mut()
        {
            let sum = crc32c(header, chunks);
            header[8..].copy_from_slice(&sum);
        }
    }
}

/// Memory reserved for a packet of unknown length; most are not longer.
const USUAL_PACKET: usize = 2048;
/// Memory allocated at once for consecutive packets.
const FEW_PACKETS: usize = 2 * USUAL_PACKET;
