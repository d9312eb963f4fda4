use bytes::{BufMut, Bytes, BytesMut};

use super::checksum::crc32c;
use super::decode::{DATA_HEADER, I_DATA_HEADER};
use super::element::{pad, padding};
use super::encode::{put_chunk, put_data};
use super::{ChecksumRule, Chunk, Data, DataOrder, PACKET_HEADER_LENGTH, VerificationTag};

/// A packet that is being written.
///
/// INIT, INIT ACK and SHUTDOWN COMPLETE have to stand alone, which is for the caller to see to.
#[derive(Debug)]
pub struct PacketWriter {
    packet: BytesMut,
    capacity: usize,
    /// What is in it comes before zero checksums are agreed on.
    needs_checksum: bool,
}

impl PacketWriter {
    /// Begins a packet of at most `capacity` bytes with its header; 65535 is the most there is.
    pub fn new(
        source_port: u16,
        destination_port: u16,
        tag: VerificationTag,
        capacity: usize,
    ) -> Self {
        let usual = capacity.clamp(PACKET_HEADER_LENGTH, USUAL_PACKET);
        let memory = BytesMut::with_capacity(usual);
        Self::within(memory, source_port, destination_port, tag, capacity)
    }

    /// Likewise in memory that is there, or in new memory for a few packets.
    pub fn within(
        memory: BytesMut,
        source_port: u16,
        destination_port: u16,
        tag: VerificationTag,
        capacity: usize,
    ) -> Self {
        let capacity = capacity.min(usize::from(u16::MAX));
        let mut packet = memory;
        packet.clear();
        if packet.capacity() < capacity.clamp(PACKET_HEADER_LENGTH, USUAL_PACKET) {
            packet.reserve(FEW_PACKETS);
        }
        packet.put_u16(source_port);
        packet.put_u16(destination_port);
        packet.put_u32(tag.value());
        packet.put_u32(0);
        Self {
            packet,
            capacity,
            needs_checksum: false,
        }
    }

    /// How long one more chunk may be, with its header and padding.
    pub fn room(&self) -> usize {
        let left = self.capacity.saturating_sub(self.packet.len());
        left - left % 4
    }

    /// Puts a chunk; without room for it, nothing happens and the answer is `false`.
    pub fn put(&mut self, chunk: &Chunk) -> bool {
        if let Chunk::Data(data) = chunk {
            return self.put_data(data);
        }
        let start = self.packet.len();
        put_chunk(&mut self.packet, chunk);
        pad(&mut self.packet);
        let fits = self.packet.len() <= self.capacity;
        if fits {
            self.needs_checksum |= matches!(chunk, Chunk::Init(_) | Chunk::CookieEcho(_));
        } else {
            self.packet.truncate(start);
        }
        fits
    }

    /// Puts DATA or I-DATA; without room for it, nothing happens and the answer is `false`.
    pub fn put_data(&mut self, data: &Data) -> bool {
        let length = data_header_length(&data.order) + data.payload.len();
        let fits = length + padding(length) <= self.room();
        if fits {
            put_data(&mut self.packet, data);
            pad(&mut self.packet);
        }
        fits
    }

    /// Whether there is no chunk in it.
    pub fn is_empty(&self) -> bool {
        self.packet.len() == PACKET_HEADER_LENGTH
    }

    /// The packet, with its checksum by the rule.
    pub fn finish(mut self, checksum: ChecksumRule) -> Bytes {
        self.write_checksum(checksum);
        self.packet.freeze()
    }

    /// Likewise, and the memory behind it for the next packet. Once nobody has the packet any more, its
    /// own is part of that.
    pub fn finish_within(mut self, checksum: ChecksumRule) -> (Bytes, BytesMut) {
        self.write_checksum(checksum);
        let packet = self.packet.split().freeze();
        (packet, self.packet)
    }

    fn write_checksum(&mut self, checksum: ChecksumRule) {
        let written = checksum == ChecksumRule::Crc32c || self.needs_checksum;
        if let Some((header, chunks)) = self.packet.split_first_chunk_mut()
            && written
        {
            let sum = crc32c(header, chunks);
            header[8..].copy_from_slice(&sum);
        }
    }
}

/// Bytes before the payload of DATA or I-DATA, chunk header included.
pub const fn data_header_length(order: &DataOrder) -> usize {
    match order {
        DataOrder::Sequence(_) => DATA_HEADER,
        DataOrder::Interleaved { .. } => I_DATA_HEADER,
    }
}

/// What is set aside for a packet that may be longer, since most are not.
const USUAL_PACKET: usize = 2048;
/// What is had at once for packets that follow each other.
const FEW_PACKETS: usize = 2 * USUAL_PACKET;
