//! Packet mode without I/O: inner packets, their queue, the choice of a path, and their order at
//! the far end.
//!
//! A driver reads packets from a TUN device and gives them to a [`Sender`], which says over which
//! path each one leaves. At the far end a [`Receiver`] says when each one is handed on.
//! `docs/design/packet.md` explains the decisions.
//!
//! - Out: `offload.rs` splits a frame of the device (`offload/split.rs`) → `packet.rs` reads
//!   headers in place → `sender.rs` puts the packet into the lane of its flow (`flow_key.rs`,
//!   `sender/flows.rs`; hosts take turns, `sender/hosts.rs`; `sender/codel.rs` keeps the queue
//!   short) → a policy of `hawser-sched` picks the path (`sender/paths.rs`).
//! - In: `receiver.rs` holds a packet while earlier ones of its flow are missing
//!   (`receiver/lane.rs`), for as long as `receiver/lateness.rs` says → `offload/coalesce.rs` joins
//!   packets to frames again.
//! - Answers in place of silence: `icmp.rs` (too large, forbidden), `reset.rs` (TCP).
//!
//! The code around it: `association/tunnel.rs` of `hawser-channels` ties it to an association,
//! `packets/` of `hawser-front` to a device. To change the order at the far end, begin at
//! `receiver.rs`; what real-time packets may do, at `sender/class.rs`; the header on the wire, at
//! `tunnel.rs` of `hawser-wire`. Tests: `sender/tests.rs`, `receiver/tests.rs`, `fuzzing.rs`.
#![forbid(unsafe_code)]

pub mod checksum;
mod flow_key;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
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
