use super::error::OffloadFault;

/// `struct virtio_net_hdr` in front of each frame, ten bytes, little endian (`TUNSETVNETLE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VirtioHeader {
    /// The checksum is open: its field holds the sum of the pseudo header.
    pub needs_checksum: bool,
    /// How the frame is to be cut.
    pub segmentation: Segmentation,
    /// Length of the headers. Only a hint, which [`Split`](super::Split) does not use.
    pub header_length: u16,
    /// Payload of each segment but the last.
    pub segment_size: u16,
    /// Where the checksum begins to cover the packet.
    pub checksum_start: u16,
    /// Place of the checksum from there.
    pub checksum_offset: u16,
}

/// How a frame is cut into packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segmentation {
    /// It is one packet.
    #[default]
    None,
    /// Segments of TCP over IPv4.
    Tcp4,
    /// Segments of TCP over IPv6.
    Tcp6,
    /// Datagrams of UDP.
    Udp,
}

impl VirtioHeader {
    /// Length in bytes.
    pub const LENGTH: usize = 10;

    /// Reads the header at the front of a frame; returns it and the packet.
    ///
    /// # Errors
    /// Fails for a frame that is too short and for an unknown segmentation.
    pub fn decode(frame: &[u8]) -> Result<(Self, &[u8]), OffloadFault> {
        let (fixed, packet) = frame
            .split_first_chunk::<{ Self::LENGTH }>()
            .ok_or(OffloadFault::Truncated)?;
        let word = |at: usize| u16::from_le_bytes([fixed[at], fixed[at + 1]]);
        // The upper bit says that the flow uses ECN, which the first segment's header says too.
        let segmentation = match fixed[1] & !ECN {
            0 => Segmentation::None,
            1 => Segmentation::Tcp4,
            4 => Segmentation::Tcp6,
            5 => Segmentation::Udp,
            other => return Err(OffloadFault::Segmentation(other)),
        };
        let header = Self {
            needs_checksum: fixed[0] & NEEDS_CHECKSUM != 0,
            segmentation,
            header_length: word(2),
            segment_size: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        };
        Ok((header, packet))
    }

    /// The bytes of the header.
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = if self.needs_checksum {
            NEEDS_CHECKSUM
        } else {
            0
        };
        bytes[1] = match self.segmentation {
            Segmentation::None => 0,
            Segmentation::Tcp4 => 1,
            Segmentation::Tcp6 => 4,
            Segmentation::Udp => 5,
        };
        let words = [
            self.header_length,
            self.segment_size,
            self.checksum_start,
            self.checksum_offset,
        ];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM` and `VIRTIO_NET_HDR_GSO_ECN`.
const NEEDS_CHECKSUM: u8 = 1;
const ECN: u8 = 0x80;
