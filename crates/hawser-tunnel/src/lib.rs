//! Packet mode without I/O: inner packets, their queue, the choice of a path, and their order at
//! the far end.
//!
//! `docs/design/packet.md` explains the decisions.
#![forbid(unsafe_code)]

mod checksum;
mod flow_key;
pub mod packet;
