use serde::{Deserialize, Serialize};

/// Result of parsing the bytes received so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse<T> {
    /// More bytes are needed.
    Incomplete,
    /// A complete message.
    Parsed {
        /// The parsed message.
        value: T,
        /// Length of the message in bytes; further bytes belong to the next message.
        consumed: usize,
    },
    /// Wrong whatever bytes may follow.
    Malformed(Malformed),
}

/// Why a client's or server's bytes were refused.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Malformed {
    /// The first byte belongs to no protocol of this port.
    #[error("unknown protocol")]
    UnknownProtocol,
    /// The connection ended in the middle of a request.
    #[error("message cut short")]
    Truncated,
    /// A version number that does not fit the protocol.
    #[error("wrong version number")]
    Version,
    /// SOCKS5: the client offers no method that the port takes. SOCKS4: the port asks for a
    /// password, which the protocol does not have.
    #[error("no acceptable authentication method")]
    AuthenticationMethod,
    /// A user name or a password that is not the port's.
    #[error("wrong user name or password")]
    Password,
    /// SOCKS: BIND, an unknown command, or UDP ASSOCIATE if datagrams are not supported.
    #[error("command not supported")]
    Command,
    /// SOCKS5: an unknown type of address.
    #[error("address type not supported")]
    AddressType,
    /// Not a host name or address.
    #[error("not a host name or address")]
    Host,
    /// SOCKS5: a fragment of a datagram.
    #[error("fragmented datagram")]
    Fragment,
    /// SOCKS4: the user id is too long.
    #[error("user id too long")]
    UserId,
    /// HTTP: the header block is larger or has more fields than allowed.
    #[error("header too large")]
    HeaderTooLarge,
    /// HTTP: not a header block.
    #[error("malformed header")]
    Header,
    /// HTTP: neither `http://host/…` nor, for CONNECT, `host:port`.
    #[error("not a proxy request: the target must be http://host/path, or host:port for connect")]
    Target,
    /// HTTP: an absolute target with another scheme than `http`.
    #[error("scheme not supported")]
    Scheme,
    /// HTTP: `Content-Length` and `Transfer-Encoding` contradict each other or themselves.
    #[error("ambiguous message length")]
    Length,
    /// HTTP: a transfer coding other than `chunked`.
    #[error("transfer coding not supported")]
    TransferCoding,
    /// HTTP: broken chunked coding.
    #[error("malformed chunk")]
    Chunk,
}

#[cfg(test)]
impl<T: std::fmt::Debug> Parse<T> {
    pub(crate) fn unwrap(self) -> (T, usize) {
        match self {
            Self::Parsed { value, consumed } => (value, consumed),
            other => panic!("not parsed: {other:?}"),
        }
    }

    pub(crate) fn malformed(self) -> Malformed {
        match self {
            Self::Malformed(reason) => reason,
            other => panic!("not malformed: {other:?}"),
        }
    }
}
