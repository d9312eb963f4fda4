use std::fmt;

use bytes::Bytes;
use hawser_types::ByteCount;
use hawser_wire::sctp::StreamNumber;

/// Reason why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer is full; [`crate::Event::Writable`] follows.
    #[error("the send buffer is full")]
    Full,
    /// The stream does not exist.
    #[error("{stream} does not exist: {count} streams were agreed on")]
    NoSuchStream {
        /// The stream.
        stream: StreamNumber,
        /// Number of streams.
        count: u16,
    },
    /// The message is empty or longer than configured.
    #[error("a message has 1 B to {max}, not {size}")]
    Size {
        /// Size of the message.
        size: ByteCount,
        /// Maximum size.
        max: ByteCount,
    },
    /// The association is closing or over.
    #[error("the association is closing")]
    Closing,
}

/// Reason why an association is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// Either end shut it down; everything sent had arrived.
    Shutdown,
    /// This end aborted it.
    Aborted,
    /// The peer aborted it, for the reason that its application gave.
    AbortedByPeer(Bytes),
    /// The peer did not answer the handshake.
    NoAnswer,
    /// No path answers any more.
    Unreachable,
    /// The peer refused the association, or its cookie had expired when it came back.
    Refused,
    /// The peer violated the protocol.
    Misbehaved(Misbehaviour),
}

/// A protocol violation by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// It acknowledged chunks that were never sent.
    AcknowledgedUnsent,
    /// Parts of a message do not fit together.
    BrokenMessage,
    /// It abandoned messages, which was not negotiated.
    ForwardedUnasked,
    /// A DATA chunk without payload.
    EmptyData,
    /// An INIT or INIT ACK whose numbers are not allowed.
    InvalidInit,
    /// It sent DATA where I-DATA was negotiated, or the reverse.
    WrongDataKind,
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AcknowledgedUnsent => "it acknowledged what was never sent",
            Self::BrokenMessage => "parts of a message do not fit together",
            Self::ForwardedUnasked => "it gave up messages though that was not agreed on",
            Self::EmptyData => "it sent a message without payload",
            Self::InvalidInit => "its first chunk has numbers that are not allowed",
            Self::WrongDataKind => "it sent DATA where I-DATA was agreed on, or the reverse",
        })
    }
}
