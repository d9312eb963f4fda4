use bytes::BytesMut;

use super::{
    CWR, FIN, OffloadFault, PSH, Segmentation, TCP_CHECKSUM, TCP_HEADER, UDP_CHECKSUM, UDP_HEADER,
    VirtioHeader,
};
use crate::checksum::{Sum, put_checksum};
use crate::packet::{IpVersion, PacketView, TCP, UDP};

/// Makes packets of a frame, one after the other, with complete checksums.
///
/// Each packet is written once, straight from the frame to where the caller wants it.
#[derive(Clone, Debug)]
pub struct Split<'a> {
    header: VirtioHeader,
    packet: PacketView<'a>,
    /// Headers of the frame, with which each packet begins.
    head: &'a [u8],
    payload: &'a [u8],
    segment: usize,
    /// Packets made so far, and bytes of payload in them.
    made: u16,
    at: usize,
    is_done: bool,
}

impl<'a> Split<'a> {
    /// Reads a frame, which begins with a [`VirtioHeader`].
    ///
    /// # Errors
    /// Fails where the frame contradicts itself.
    pub fn new(frame: &'a [u8]) -> Result<Self, OffloadFault> {
        let (header, bytes) = VirtioHeader::decode(frame)?;
        let packet = PacketView::parse(bytes)?;
        let bytes = packet.bytes();
        let (length, segment) = match header.segmentation {
            Segmentation::None => (bytes.len(), bytes.len()),
            _ => {
                let length = headers_to_repeat(&header, &packet)?;
                (length, usize::from(header.segment_size))
            }
        };
        let (head, payload) = bytes.split_at(length);
        if header.segmentation != Segmentation::None
            && (segment == 0 || payload.len().div_ceil(segment) > MAX_SEGMENTS)
        {
            return Err(OffloadFault::SegmentSize(header.segment_size));
        }
        Ok(Self {
            header,
            packet,
            head,
            payload,
            segment,
            made: 0,
            at: 0,
            is_done: false,
        })
    }

    /// Length that the longest packet will have.
    pub fn longest(&self) -> usize {
        self.head.len() + self.segment.min(self.payload.len())
    }

    /// Appends the next packet to `out`. Returns its length; `None` after the last one.
    pub fn write_next(&mut self, out: &mut BytesMut) -> Option<usize> {
        if self.is_done {
            return None;
        }
        let end = self.payload.len().min(self.at + self.segment);
        let part = &self.payload[self.at..end];
        let is_last = end == self.payload.len();
        let start = out.len();
        out.reserve(self.head.len() + part.len());
        out.extend_from_slice(self.head);
        out.extend_from_slice(part);
        let packet = &mut out[start..];
        if self.header.segmentation == Segmentation::None {
            self.complete(packet);
        } else {
            self.number(packet, is_last);
        }
        self.made += 1;
        self.at = end;
        self.is_done = is_last;
        Some(self.head.len() + part.len())
    }

    /// Completes the checksum of a packet that is not cut.
    fn complete(&self, packet: &mut [u8]) {
        if self.header.needs_checksum {
            let start = usize::from(self.header.checksum_start);
            let place = start + usize::from(self.header.checksum_offset);
            // The field has the sum of the pseudo header.
            let sum = packet.get(place..place + 2).unwrap_or_default();
            let pseudo = Sum::default().add_bytes(sum);
            if put_checksum(packet, place, pseudo, start) && self.packet.protocol() == UDP {
                avoid_zero(packet, place);
            }
        }
    }

    /// Makes the repeated headers those of this segment.
    fn number(&self, packet: &mut [u8], is_last: bool) {
        let start = self.packet.header_length();
        let length = packet.len();
        match self.packet.version() {
            IpVersion::V4 => {
                packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
                let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(self.made);
                packet[4..6].copy_from_slice(&id.to_be_bytes());
                put_checksum(&mut packet[..start], 10, Sum::default(), 0);
            }
            IpVersion::V6 => {
                let payload = (length - V6_HEADER) as u16;
                packet[4..6].copy_from_slice(&payload.to_be_bytes());
            }
        }
        let transport = &mut packet[start..];
        let place = match self.header.segmentation {
            Segmentation::Udp => {
                let length = transport.len() as u16;
                transport[4..6].copy_from_slice(&length.to_be_bytes());
                UDP_CHECKSUM
            }
            _ => {
                let [a, b, c, d] = [4, 5, 6, 7].map(|at| transport[at]);
                let sequence = u32::from_be_bytes([a, b, c, d]).wrapping_add(self.at as u32);
                transport[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !is_last {
                    transport[13] &= !(FIN | PSH);
                }
                if self.made > 0 {
                    transport[13] &= !CWR;
                }
                TCP_CHECKSUM
            }
        };
        let pseudo = pseudo_header(&self.packet, transport.len());
        put_checksum(packet, start + place, pseudo, start);
        if self.header.segmentation == Segmentation::Udp {
            avoid_zero(packet, start + place);
        }
    }
}

/// Length of the headers that each segment repeats.
fn headers_to_repeat(
    header: &VirtioHeader,
    packet: &PacketView<'_>,
) -> Result<usize, OffloadFault> {
    let protocol = match header.segmentation {
        Segmentation::Udp => UDP,
        _ => TCP,
    };
    let version = match header.segmentation {
        Segmentation::Tcp4 => IpVersion::V4,
        Segmentation::Tcp6 => IpVersion::V6,
        _ => packet.version(),
    };
    if packet.protocol() != protocol || packet.version() != version || packet.is_fragment() {
        return Err(OffloadFault::Mismatch);
    }
    let transport = packet.transport();
    let length = match header.segmentation {
        Segmentation::Udp => UDP_HEADER,
        _ => {
            let offset = transport.get(12).ok_or(OffloadFault::Mismatch)?;
            usize::from(offset >> 4) * 4
        }
    };
    let least = if protocol == TCP {
        TCP_HEADER
    } else {
        UDP_HEADER
    };
    if length < least || length > transport.len() {
        return Err(OffloadFault::Mismatch);
    }
    Ok(packet.header_length() + length)
}

/// The sum that the checksums of TCP and UDP begin with, for so many bytes behind the IP headers.
pub(super) fn pseudo_header(packet: &PacketView<'_>, length: usize) -> Sum {
    let addresses = match packet.version() {
        IpVersion::V4 => &packet.bytes()[12..20],
        IpVersion::V6 => &packet.bytes()[8..40],
    };
    let sum = Sum::default().add_bytes(addresses).add_word(length as u16);
    sum.add_word(u16::from(packet.protocol()))
}

/// A checksum of zero means none in UDP (RFC 768); the other form of zero takes its place.
fn avoid_zero(packet: &mut [u8], place: usize) {
    if packet[place..place + 2] == [0, 0] {
        packet[place..place + 2].fill(0xff);
    }
}

const V6_HEADER: usize = 40;
/// 64 KiB in segments of 64 bytes.
const MAX_SEGMENTS: usize = 1024;
