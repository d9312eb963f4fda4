//! Frames of a TUN device with `IFF_VNET_HDR`: many packets of a flow in one frame.
//!
//! The kernel hands over up to 64 KiB of a TCP or UDP flow as one frame, with one system call, and
//! leaves checksums open. [`Split`] makes packets of it. [`Coalescer`] makes such frames of packets.

mod coalesce;
mod header;
mod split;
#[cfg(test)]
mod tests;

pub use coalesce::{Coalescer, Frame};
pub use header::{Segmentation, VirtioHeader};
pub use split::Split;

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadFault {
    /// The frame ends inside its header.
    #[error("the frame is cut short")]
    Truncated,
    /// The type of segmentation is none that is known.
    #[error("segmentation type {0} is not known")]
    Segmentation(u8),
    /// The packet's IP headers are wrong.
    #[error(transparent)]
    Packet(#[from] crate::packet::PacketFault),
    /// The packet is not what the header says, as a UDP packet that is to be cut as TCP.
    #[error("the packet does not suit its frame's header")]
    Mismatch,
    /// Segments of no bytes, or more of them than is allowed.
    #[error("segments of {0} bytes are not possible")]
    SegmentSize(u16),
}

/// Place of the checksum in a TCP header, and of that in a UDP header.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
/// Flags of TCP.
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const CWR: u8 = 0x80;
