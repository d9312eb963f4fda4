//! Causes that both sides of a session name on the wire: why a destination could not be reached,
//! and why a stream was aborted.
//!
//! Every cause has a number that never changes. Connect failures are 1 to 255, aborts of a running
//! stream are 256 and up, and 0 is never sent. A receiver that does not know a number reads it as
//! [`DialError::Internal`] or [`ResetCode::Internal`].
//!
//! | number | cause |
//! |---|---|
//! | 1 … 12 | the variants of [`DialError`], in order |
//! | 256 | the application or its machine aborted the stream |
//! | 257 | nothing moved for too long |
//! | 258 | the session under the stream was lost |
//! | 259 | a limit was reached |
//! | 260 | the other side broke the protocol |
//! | 261 | this program is at fault |
//! | 262 | one side is shutting down |

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

macro_rules! causes {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $code:literal, $text:literal;)+
    }) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// Every cause, in the order of the numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The number that stands for this cause on the wire.
            pub const fn code(self) -> u16 {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// The cause that `code` stands for; `None` for a number that this version does not
            /// know.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.text())
            }
        }

        impl std::error::Error for $name {}
    };
}

causes! {
    /// Why a destination could not be reached.
    DialError {
        /// The gateway's policy forbids the destination.
        RefusedByPolicy = 1, "destination refused by policy";
        /// No answer from the host, or a router said that it cannot be reached.
        HostUnreachable = 2, "host unreachable";
        /// No route to the destination's network.
        NetworkUnreachable = 3, "network unreachable";
        /// The host is there and nothing listens on the port.
        ConnectionRefused = 4, "connection refused";
        /// Neither success nor failure within the time allowed.
        TimedOut = 5, "timed out";
        /// The name has no address.
        NameNotFound = 6, "name not found";
        /// No gateway can be reached over any link.
        GatewayUnavailable = 7, "gateway unavailable";
        /// A limit on streams, destinations or connects was reached.
        LimitReached = 8, "limit reached";
        /// The attempt was given up by the side that made it.
        Aborted = 9, "aborted";
        /// The fault lies in this program or its machine.
        Internal = 10, "internal error";
        /// The opening of the stream could not be read.
        MalformedDestination = 11, "malformed destination";
        /// The name server could not be asked.
        ResolverUnavailable = 12, "name server unavailable";
    }
}

impl DialError {
    /// The cause behind a failed `connect` or the like.
    pub fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            // A reset during connect is a refusal too: some hosts answer a SYN so.
            Kind::ConnectionRefused | Kind::ConnectionReset => Self::ConnectionRefused,
            Kind::HostUnreachable => Self::HostUnreachable,
            // No address of that family here, or the interface is down: no way to that network.
            Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::AddrNotAvailable
            | Kind::Unsupported => Self::NetworkUnreachable,
            Kind::TimedOut => Self::TimedOut,
            // A local firewall, or a broadcast address.
            Kind::PermissionDenied => Self::RefusedByPolicy,
            Kind::OutOfMemory | Kind::AddrInUse => Self::LimitReached,
            Kind::ConnectionAborted | Kind::Interrupted => Self::Aborted,
            _ => match error.raw_os_error() {
                Some(EAFNOSUPPORT) => Self::NetworkUnreachable,
                Some(EMFILE | ENFILE | ENOBUFS) => Self::LimitReached,
                _ => Self::Internal,
            },
        }
    }

    /// True if no answer came where one was due.
    pub const fn is_miss(self) -> bool {
        matches!(
            self,
            Self::TimedOut | Self::HostUnreachable | Self::NetworkUnreachable
        )
    }
}

causes! {
    /// Why a stream that was open was aborted.
    ResetCode {
        /// The application or its machine aborted; what an RST says.
        Aborted = 256, "connection reset";
        /// Nothing moved for longer than allowed.
        IdleTimeout = 257, "idle for too long";
        /// The session under the stream was lost.
        SessionLost = 258, "session lost";
        /// A limit on streams or memory was reached.
        LimitReached = 259, "limit reached";
        /// The other side broke the protocol.
        ProtocolViolation = 260, "protocol violation";
        /// The fault lies in this program or its machine.
        Internal = 261, "internal error";
        /// One side is shutting down.
        ShuttingDown = 262, "shutting down";
    }
}

impl ResetCode {
    /// The cause behind a failed read or write: the [`StreamReset`] inside it, or what its kind
    /// says.
    pub fn from_io(error: &io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        if let Some(StreamReset(code)) = inner {
            return *code;
        }
        match error.kind() {
            io::ErrorKind::TimedOut => Self::IdleTimeout,
            io::ErrorKind::InvalidData => Self::ProtocolViolation,
            _ => Self::Aborted,
        }
    }
}

impl From<ResetCode> for io::Error {
    /// The error that a transport gives its reader and writer after a reset.
    fn from(code: ResetCode) -> Self {
        Self::new(io::ErrorKind::ConnectionReset, StreamReset(code))
    }
}

/// A reset by the peer, as the inner error of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stream reset by the peer: {0}")]
pub struct StreamReset(pub ResetCode);

/// Numbers of Linux's errors that have no `ErrorKind` of their own.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EAFNOSUPPORT: i32 = 97;
const ENOBUFS: i32 = 105;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_survives_its_number() {
        for &cause in DialError::ALL {
            assert_eq!(DialError::from_code(cause.code()), Some(cause));
            assert!(cause.code() > 0 && cause.code() < 256);
        }
        for &cause in ResetCode::ALL {
            assert_eq!(ResetCode::from_code(cause.code()), Some(cause));
            assert!(cause.code() >= 256);
        }
        assert_eq!(DialError::from_code(0), None);
        assert_eq!(DialError::from_code(256), None);
        assert_eq!(ResetCode::from_code(1), None);
    }

    #[test]
    fn the_numbers_never_change() {
        let numbers: Vec<u16> = DialError::ALL.iter().map(|cause| cause.code()).collect();
        assert_eq!(numbers, (1..=12).collect::<Vec<u16>>());
        assert_eq!(DialError::ConnectionRefused.code(), 4);
        assert_eq!(DialError::LimitReached.code(), 8);
        assert_eq!(ResetCode::Aborted.code(), 256);
        assert_eq!(ResetCode::ShuttingDown.code(), 262);
    }

    #[test]
    fn a_reset_keeps_its_cause_inside_an_io_error() {
        let error = io::Error::from(ResetCode::SessionLost);
        assert_eq!(ResetCode::from_io(&error), ResetCode::SessionLost);
        let plain = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(ResetCode::from_io(&plain), ResetCode::Aborted);
    }

    #[test]
    fn connect_errors_are_told_apart() {
        const EBADF: i32 = 9;
        const ENETUNREACH: i32 = 101;
        const ETIMEDOUT: i32 = 110;
        const ECONNREFUSED: i32 = 111;
        const EHOSTUNREACH: i32 = 113;
        let of = |errno| DialError::from_io(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(ECONNREFUSED), DialError::ConnectionRefused);
        assert_eq!(of(EHOSTUNREACH), DialError::HostUnreachable);
        assert_eq!(of(ENETUNREACH), DialError::NetworkUnreachable);
        assert_eq!(of(EAFNOSUPPORT), DialError::NetworkUnreachable);
        assert_eq!(of(ETIMEDOUT), DialError::TimedOut);
        assert_eq!(of(EMFILE), DialError::LimitReached);
        assert_eq!(of(EBADF), DialError::Internal);
    }
}
