//! Framing of packets: whole, by RFC 9260, or compact, under a seal that identifies the
//! association.

use super::compact::{KIND, TSN};
use super::decode::{DATA_HEADER, I_DATA_HEADER};
use super::element::padding;
use super::{Data, DataOrder, StreamNumber, VerificationTag};
use crate::varint::varint_length;

/// Framing of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Whole packets by RFC 9260.
    #[default]
    Whole,
    /// Compact packets, for two ends with a seal for this association alone.
    Compact,
}

/// Ports and tag of the common header, which the opener of a compact packet knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonHeader {
    /// The sender's SCTP port.
    pub source_port: u16,
    /// The receiver's SCTP port.
    pub destination_port: u16,
    /// Verification tag that the receiver expects.
    pub tag: VerificationTag,
}

impl Framing {
    /// Returns the number of bytes before the first chunk.
    pub const fn packet_header(self) -> usize {
        match self {
            Self::Whole => PACKET_HEADER_LENGTH,
            Self::Compact => 0,
        }
    }

    /// Returns the unit of packet sizes that chunks can fill.
    pub const fn unit(self) -> usize {
        match self {
            Self::Whole => 4,
            Self::Compact => 1,
        }
    }

    /// Returns the header size of the last chunk of a packet. `protocol`: the payload protocol
    /// identifier, on the first part of a message.
    pub fn data_header(
        self,
        stream: StreamNumber,
        order: &DataOrder,
        protocol: Option<u32>,
    ) -> usize {
        match (self, order) {
            (_, DataOrder::Sequence(_)) => DATA_HEADER,
            (Self::Whole, DataOrder::Interleaved { .. }) => I_DATA_HEADER,
            (Self::Compact, DataOrder::Interleaved { message, fragment }) => {
                let shared = protocol.unwrap_or(*fragment);
                let numbers = [u32::from(stream.value()), *message, shared];
                let numbers = numbers.map(|number| varint_length(number.into()));
                KIND + TSN + numbers.iter().sum::<usize>()
            }
        }
    }

    /// Returns the maximum payload of a chunk in `room` bytes with such a header.
    pub fn payload_within(self, room: usize, header: usize, order: &DataOrder) -> usize {
        let room = match (self, order) {
            (Self::Compact, DataOrder::Interleaved { .. }) => room,
            _ => room - room % 4,
        };
        room.saturating_sub(header)
    }

    /// Returns the length of a chunk that is alone in its packet, with padding.
    pub fn chunk_length(self, data: &Data) -> usize {
        self.chunk_length_behind(0, data)
    }

    /// Returns the length of a chunk that is alone in its packet, with padding and with `front`
    /// bytes before its payload.
    pub fn chunk_length_behind(self, front: usize, data: &Data) -> usize {
        let protocol = data.first.then_some(data.protocol);
        let header = self.data_header(data.stream, &data.order, protocol);
        let length = header + front + data.payload.len();
        match (self, data.order) {
            (Self::Compact, DataOrder::Interleaved { .. }) => length,
            _ => length + padding(length),
        }
    }
}

/// Length of the common header in bytes.
pub const PACKET_HEADER_LENGTH: usize = 12;
