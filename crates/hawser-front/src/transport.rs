//! What the front ends ask of a transport, and the causes that both sides name on the wire.
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
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;

use hawser_types::ByteCount;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connection::Origin;
use crate::destination::Destination;

/// A two-way stream of bytes with half-close and reset.
///
/// End of file on reading means that the peer closed its half in order; `poll_shutdown` closes
/// ours. An abort by the peer is an error on reading or writing. A transport that knows why puts a
/// [`StreamReset`] inside that error; [`ResetCode::from_io`] finds it again.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Aborts both directions. The peer sees an error, not an end of file, at the latest when the
    /// stream is dropped; the stream is of no further use.
    fn reset(&mut self, code: ResetCode);

    /// Bytes that were written, have not arrived at the peer, and would be lost by a reset now.
    ///
    /// Zero for a transport that delivers what was written before it delivers the reset.
    fn undelivered(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Whether the peer has aborted, as far as that can be told without reading or writing.
    ///
    /// Once reading has ended, a stream that only receives would never learn it otherwise.
    fn aborted(&self) -> Option<ResetCode> {
        None
    }
}

impl ByteStream for TcpStream {
    fn reset(&mut self, _code: ResetCode) {
        // Closing with a linger time of zero is how a sockets program sends RST. It can only fail
        // on a socket that is gone already.
        let _ = self.set_zero_linger();
    }

    fn undelivered(&self) -> ByteCount {
        let mut queued: libc::c_int = 0;
        // SAFETY: the descriptor is open as long as `self` lives, and TIOCOUTQ (SIOCOUTQ) writes
        // exactly one int.
        let status = unsafe { libc::ioctl(self.as_raw_fd(), libc::TIOCOUTQ, &mut queued) };
        match (status, usize::try_from(queued)) {
            (0, Ok(queued)) => ByteCount::from(queued),
            _ => ByteCount::ZERO,
        }
    }

    fn aborted(&self) -> Option<ResetCode> {
        match self.take_error() {
            Ok(None) => None,
            Ok(Some(error)) | Err(error) => Some(ResetCode::from_io(&error)),
        }
    }
}

/// Opens streams to destinations: straight, or through a gateway.
pub trait Dialer: Send + Sync + 'static {
    /// What a successful dial gives.
    type Stream: ByteStream;

    /// Opens a stream. It resolves only once the destination itself has accepted the connection,
    /// and it bounds its own time; names in `destination` are the dialer's to resolve.
    fn dial(
        &self,
        destination: &Destination,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send;

    /// Opens a stream for somebody of whom something is known. Dialers to which that makes no
    /// difference open one as for anybody.
    fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send {
        let _ = origin;
        self.dial(destination)
    }
}

macro_rules! causes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $code:literal, $text:literal;)+ }) => {
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
                Some(libc::EAFNOSUPPORT) => Self::NetworkUnreachable,
                Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS) => Self::LimitReached,
                _ => Self::Internal,
            },
        }
    }

    /// Whether nothing came back where an answer was due.
    pub(crate) const fn is_miss(self) -> bool {
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
        let of = |errno| DialError::from_io(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::ECONNREFUSED), DialError::ConnectionRefused);
        assert_eq!(of(libc::EHOSTUNREACH), DialError::HostUnreachable);
        assert_eq!(of(libc::ENETUNREACH), DialError::NetworkUnreachable);
        assert_eq!(of(libc::EAFNOSUPPORT), DialError::NetworkUnreachable);
        assert_eq!(of(libc::ETIMEDOUT), DialError::TimedOut);
        assert_eq!(of(libc::EMFILE), DialError::LimitReached);
        assert_eq!(of(libc::EBADF), DialError::Internal);
    }
}
