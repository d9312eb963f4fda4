//! Packet mode without I/O: inner packets, their queue, the choice of a path, and their order at
//! the far end.
//!
//! A driver reads packets from a TUN device and gives them to a [`Sender`], which says over which
//! path each one leaves. At the far end a [`Receiver`] says when each one is handed on.
//! `docs/design/packet.md` explains the decisions.
#![forbid(unsafe_code)]

pub mod checksum;
mod flow_key;
#[doc(hidden)]
pub mod fuzzing;
pub mod icmp;
mod memory;
pub mod offload;
pub mod packet;
mod receiver;
mod reset;
mod sender;

pub use memory::{BLOCK, PacketMemory};
pub use receiver::{Delivery, PathDelay, Receiver, ReceiverConfig, ReceiverStats};
pub use reset::reset;
pub use sender::{Class, HostEnd, Placed, Refused, Sender, SenderConfig, SenderStats, TunnelPaths};
