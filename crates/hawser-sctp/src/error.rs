use std::fmt;

use bytes::Bytes;
use hawser_types::ByteCount;
use hawser_wire::sctp::StreamNumber;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer is full; [`crate::Event::Writable`] follows.
    #[error("the send buffer is full")]
    Full,
    /// There is no such stream.
    #[error("{stream} does not exist: {count} streams were agreed on")]
    NoSuchStream {
        /// The stream.
        stream: StreamNumber,
        /// How many there are.
        count: u16,
    },
    /// A message has at least one byte, and at most as many as configured.
    #[error("a message has 1 B to {max}, not {size}")]
    Size {
        /// The message's.
        size: ByteCount,
        /// The most.
        max: ByteCount,
    },
    /// The association is over, or on its way to be.
    #[error("the association is closing")]
    Closing,
}

/// Why an association is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// Either end shut it down; everything that was sent had arrived.
    Shutdown,
    /// This end ended it.
    Aborted,
    /// The peer ended it, with what its application said of it.
    AbortedByPeer(Bytes),
    /// Nobody answered the first packets.
    NoAnswer,
    /// No path answers any more.
    Unreachable,
    /// The peer refused to begin.
    Refused,
    /// The peer did what the protocol forbids.
    Misbehaved(Misbehaviour),
}

/// What a peer did that the protocol forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Misbehaviour {
    /// It acknowledged what was never sent.
    AcknowledgedUnsent,
    /// Parts of a message do not fit together.
    BrokenMessage,
    /// It gave up messages without having been offered to.
    ForwardedUnasked,
    /// A DATA chunk without payload.
    EmptyData,
    /// An INIT or INIT ACK whose numbers are not allowed.
    InvalidInit,
    /// DATA and I-DATA are not what was agreed on.
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
