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

use crate::numbers::numbers;

numbers! {
    /// Type of a [`Chunk`].
    pub enum ChunkKind {
        /// DATA.
        Data = 0,
        /// INIT.
        Init = 1,
        /// INIT ACK.
        InitAck = 2,
        /// SACK.
        Sack = 3,
        /// HEARTBEAT.
        Heartbeat = 4,
        /// HEARTBEAT ACK.
        HeartbeatAck = 5,
        /// ABORT.
        Abort = 6,
        /// SHUTDOWN.
        Shutdown = 7,
        /// SHUTDOWN ACK.
        ShutdownAck = 8,
        /// ERROR.
        Error = 9,
        /// COOKIE ECHO.
        CookieEcho = 10,
        /// COOKIE ACK.
        CookieAck = 11,
        /// SHUTDOWN COMPLETE.
        ShutdownComplete = 14,
        /// I-DATA.
        IData = 64,
        /// ASCONF-ACK.
        AsconfAck = 128,
        /// PAD.
        Pad = 132,
        /// FORWARD-TSN.
        ForwardTsn = 192,
        /// ASCONF.
        Asconf = 193,
        /// I-FORWARD-TSN.
        IForwardTsn = 194,
    }
}

impl ChunkKind {
    /// The first two bytes of a chunk.
    const fn with_flags(self, flags: u8) -> [u8; 2] {
        [self.number(), flags]
    }
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
