use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        identifier! { $(#[$doc])* $name($inner) }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name($inner);

        impl $name {
            /// Wraps the plain number.
            pub const fn new(value: $inner) -> Self {
                Self(value)
            }

            /// The plain number.
            pub const fn value(self) -> $inner {
                self.0
            }

            /// The number that follows; saturates at the end of the range.
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

identifier! {
    /// One TCP connection of a session. Unique within the session and never used twice.
    ChannelId(u32), "channel "
}

identifier! {
    /// One path: a local link together with a remote address. Unique within the process.
    PathId(u32), "path "
}

identifier! {
    /// The kernel's interface index, which identifies a link, since two links may share an address.
    LinkIndex(u32)
}

impl LinkIndex {
    /// Stands for all links, as of an association; not the index of a link.
    pub const ALL: Self = Self(u32::MAX);
}

impl fmt::Display for LinkIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => f.write_str("all links"),
            Self(index) => write!(f, "link {index}"),
        }
    }
}

identifier! {
    /// One byte stream of a session. Even when the client opened it, odd when the gateway did;
    /// stream 0 carries the session's commands.
    StreamId(u64), "stream "
}

identifier! {
    /// On whose behalf streams were opened: groups of streams have equal shares. The numbers mean
    /// nothing beyond their session.
    StreamGroup(u32), "group "
}

impl StreamGroup {
    /// The streams of the opener itself.
    pub const OWN: Self = Self(0);
}

identifier! {
    /// Number of a chunk among all that one side of a session has cut, across all streams; a chunk
    /// that is sent again keeps it.
    ///
    /// Source: BATCP §3.6.
    SegmentNumber(u64), "segment "
}

identifier! {
    /// Number of a record in one direction of one channel, from 0; also the AEAD nonce.
    RecordNumber(u64), "record "
}

identifier! {
    /// A position in a byte stream, counted from its first byte.
    StreamOffset(u64), "offset "
}

impl StreamOffset {
    /// The position `bytes` further on; saturates.
    pub const fn advance(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }
}

impl StreamId {
    /// The stream that carries the session's commands.
    pub const COMMANDS: Self = Self(0);

    /// Tells whether the client (which began the session) opens streams with this number.
    pub const fn is_client_opened(self) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// Identifier of a session, which a channel gives when it joins at a gateway. Derived from the TLS
/// exporter, so both ends know it without sending it; not a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// Wraps the sixteen bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The sixteen bytes as they go over the wire.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SessionId {
    /// The first four bytes in hexadecimal: enough to tell sessions apart in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {self}")
    }
}
