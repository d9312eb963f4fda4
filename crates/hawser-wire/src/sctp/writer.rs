use bytes::{BufMut, Bytes, BytesMut};

use super::checksum::crc32c;
use super::compact::{self, LENGTH, PacketNames, WHOLE, is_foreign};
use super::element::{ELEMENT_HEADER, pad, padding};
use super::encode::{put_chunk, put_data};
use super::{ChecksumRule, Chunk, Data, DataOrder, Framing, PACKET_HEADER_LENGTH, VerificationTag};

/// A packet that is being written.
///
/// INIT, INIT ACK and SHUTDOWN COMPLETE have to stand alone, which is for the caller to see to.
#[derive(Debug)]
pub struct PacketWriter {
    packet: BytesMut,
    capacity: usize,
    framing: Framing,
    /// Where the header begins, if there is one.
    header: usize,
    /// Where the first chunk begins.
    start: usize,
    /// Nothing may follow what is there.
    is_full: bool,
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
        let names = PacketNames {
            source_port,
            destination_port,
            tag,
        };
        let usual = capacity.clamp(PACKET_HEADER_LENGTH, USUAL_PACKET);
        Self::within(BytesMut::with_capacity(usual), names, capacity)
    }

    /// Likewise in memory that is there, or in new memory for a few packets.
    pub fn within(memory: BytesMut, names: PacketNames, capacity: usize) -> Self {
        let mut writer = Self::of(memory, Framing::Whole, capacity);
        writer.put_header(names);
        writer
    }

    /// A whole packet that is to be sealed where compact ones are too.
    pub fn sealed(memory: BytesMut, names: PacketNames, capacity: usize) -> Self {
        let mut writer = Self::of(memory, Framing::Whole, capacity);
        writer.packet.put_slice(&WHOLE);
        writer.put_header(names);
        writer
    }

    /// A compact packet, which is to be sealed.
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

    fn put_header(&mut self, names: PacketNames) {
        self.header = self.packet.len();
        self.packet.put_u16(names.source_port);
        self.packet.put_u16(names.destination_port);
        self.packet.put_u32(names.tag.value());
        self.packet.put_u32(0);
        self.start = self.packet.len();
    }

    /// How long one more chunk may be, with its header and padding.
    pub fn room(&self) -> usize {
        if self.is_full {
            return 0;
        }
        let unit = self.framing.unit();
        let length = self.packet.len();
        let left = self.capacity.saturating_sub(length + padding(length));
        left - left % unit
    }

    /// Puts a chunk; without room for it, or where a packet of this framing can't have it, nothing happens
    /// and the answer is `false`.
    pub fn put(&mut self, chunk: &Chunk) -> bool {
        if let Chunk::Data(data) = chunk {
            return self.put_data(data);
        }
        let start = self.packet.len();
        pad(&mut self.packet);
        let begin = self.packet.len();
        put_chunk(&mut self.packet, chunk);
        // The last chunk of a compact packet has none.
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

    /// Puts DATA or I-DATA; without room for it, nothing happens and the answer is `false`.
    pub fn put_data(&mut self, data: &Data) -> bool {
        let length = self.framing.chunk_length(data);
        let fits = length <= self.room();
        if fits {
            pad(&mut self.packet);
            match (self.framing, data.order) {
                (Framing::Compact, DataOrder::Interleaved { message, fragment }) => {
                    let next = (self.packet.len() + length + LENGTH).next_multiple_of(4);
                    self.is_full = next + ELEMENT_HEADER > self.capacity;
                    compact::put_data(&mut self.packet, data, message, fragment, self.is_full);
                }
                _ => {
                    put_data(&mut self.packet, data);
                    pad(&mut self.packet);
                }
            }
        }
        fits
    }

    /// Whether there is no chunk in it.
    pub fn is_empty(&self) -> bool {
        self.packet.len() == self.start
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
        if self.framing == Framing::Whole
            && written
            && let Some((header, chunks)) = self.packet[self.header..].split_first_chunk_mut()
        {
            let sum = crc32c(header, chunks);
            header[8..].copy_from_slice(&sum);
        }
    }
}

/// What is set aside for a packet that may be longer, since most are not.
const USUAL_PACKET: usize = 2048;
/// What is had at once for packets that follow each other.
const FEW_PACKETS: usize = 2 * USUAL_PACKET;
