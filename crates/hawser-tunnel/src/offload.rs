//! Frames of a TUN device with `IFF_VNET_HDR`: many packets of a flow in one frame.
//!
//! The kernel hands over up to 64 KiB of a TCP or UDP flow as one frame, with one system call,
//! and leaves checksums open. [`Split`] makes packets of it, [`Coalescer`] such frames of packets.

mod coalesce;
mod error;
mod header;
mod split;
#[cfg(test)]
mod tests;

pub use coalesce::{Coalescer, Frame};
pub use error::OffloadFault;
pub use header::{Segmentation, VirtioHeader};
pub use split::Split;

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
