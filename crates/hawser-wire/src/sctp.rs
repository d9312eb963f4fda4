//! SCTP packets, chunks and parameters; no state.
//!
//! Source: RFC 9260, with I-DATA and I-FORWARD-TSN (RFC 8260), FORWARD-TSN (RFC 3758), ASCONF
//! (RFC 5061), PAD (RFC 4820) and the zero checksum (RFC 9653).

mod checksum;
mod chunk;
mod compact;
mod decode;
mod element;
mod encode;
mod framing;
mod number;
mod packet;
mod parameter;
#[cfg(test)]
mod tests;
mod unknown;
mod writer;

pub use checksum::ChecksumRule;
pub use chunk::{Chunk, Data, DataOrder, ForwardTsn, GapBlock, Init, Sack, SkippedStream};
pub use framing::{CommonHeader, Framing, PACKET_HEADER_LENGTH};
pub use number::{StreamNumber, Tsn, VerificationTag};
pub use packet::{Chunks, Packet};
pub use parameter::{Cause, Parameter};
pub use unknown::UnknownAction;
pub use writer::PacketWriter;

/// Types of chunks.
mod kind {
    pub(super) const DATA: u8 = 0;
    pub(super) const INIT: u8 = 1;
    pub(super) const INIT_ACK: u8 = 2;
    pub(super) const SACK: u8 = 3;
    pub(super) const HEARTBEAT: u8 = 4;
    pub(super) const HEARTBEAT_ACK: u8 = 5;
    pub(super) const ABORT: u8 = 6;
    pub(super) const SHUTDOWN: u8 = 7;
    pub(super) const SHUTDOWN_ACK: u8 = 8;
    pub(super) const ERROR: u8 = 9;
    pub(super) const COOKIE_ECHO: u8 = 10;
    pub(super) const COOKIE_ACK: u8 = 11;
    pub(super) const SHUTDOWN_COMPLETE: u8 = 14;
    pub(super) const I_DATA: u8 = 64;
    pub(super) const ASCONF_ACK: u8 = 128;
    pub(super) const PAD: u8 = 132;
    pub(super) const FORWARD_TSN: u8 = 192;
    pub(super) const ASCONF: u8 = 193;
    pub(super) const I_FORWARD_TSN: u8 = 194;
}

/// Flags of chunks.
mod flag {
    /// DATA: the message ends here.
    pub(super) const LAST: u8 = 1;
    /// DATA: the message begins here.
    pub(super) const FIRST: u8 = 2;
    /// DATA: delivered out of order.
    pub(super) const UNORDERED: u8 = 4;
    /// DATA: acknowledge at once.
    pub(super) const IMMEDIATE: u8 = 8;
    /// ABORT, SHUTDOWN COMPLETE: the tag is the sender's own.
    pub(super) const REFLECTED: u8 = 1;
    /// I-FORWARD-TSN: the message is an unordered one.
    pub(super) const SKIPPED_UNORDERED: u16 = 1;
}
