use std::time::Duration;

use bytes::Bytes;
use hawser_types::{ByteCount, Instant, StreamId};

/// A message to be sent: it arrives whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// At least one byte, at most
    /// [`AssociationConfig::max_message`](crate::AssociationConfig::max_message).
    pub payload: Bytes,
    /// Payload protocol identifier; 0 for none.
    pub protocol: u32,
    /// The message is delivered as soon as it has arrived, in any order.
    pub unordered: bool,
    /// Limit after which the message is abandoned.
    pub reliability: Reliability,
    /// The message is sent with a redundant copy at once: over a second path of similar delay, or
    /// over the same path if it has been losing packets. So a loss causes no delay. For short
    /// messages; at most one byte in fifty, and 256 kbit/s, is duplicated.
    pub twice: bool,
    /// The owner's stream that the message belongs to: what is placed on which path, and why, is
    /// counted for it until the owner takes it by
    /// [`Association::take_placed`](crate::Association::take_placed). `None`: it is not counted.
    pub owner_stream: Option<StreamId>,
}

impl Message {
    /// Creates an ordered message that is never abandoned.
    pub fn new(payload: Bytes) -> Self {
        Self {
            payload,
            protocol: 0,
            unordered: false,
            reliability: Reliability::Full,
            twice: false,
            owner_stream: None,
        }
    }
}

/// Limit after which a message that has not arrived is abandoned.
///
/// Where the peer does not support that (RFC 3758), only messages that were not sent at all are
/// abandoned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reliability {
    /// Never.
    #[default]
    Full,
    /// At this instant.
    Until(Instant),
    /// This long after it was queued.
    Lifetime(Duration),
    /// When a part of it would need more than this many retransmissions.
    Retransmissions(u32),
}

/// Data that the owner of an association has not handed over yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerBacklog {
    /// Bytes of it.
    pub bytes: ByteCount,
    /// More data keeps coming, so that the total is unknown.
    pub more: bool,
}

/// Identifier of a message that may be abandoned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageId(u64);

impl MessageId {
    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Memory for a message or chunk besides its payload.
pub(super) const OVERHEAD: u64 = 256;
