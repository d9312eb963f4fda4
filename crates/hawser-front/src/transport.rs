//! Interface of transports for the front ends.

use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hawser_net::thread_memory;
use hawser_types::ByteCount;
pub use hawser_types::{DialError, ResetCode, StreamReset};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tracing::Span;

use crate::connection::Origin;
use crate::destination::Destination;

/// A two-way stream of bytes with half-close and reset.
///
/// End of file on reading means that the peer closed its half in order; `poll_shutdown` closes
/// this end's half. An abort by the peer is an error on reading or writing. A transport that knows
/// the reason puts a [`StreamReset`] inside that error; [`ResetCode::from_io`] extracts it.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Aborts both directions. The peer sees an error, not an end of file, at the latest when the
    /// stream is dropped; the stream is of no further use.
    fn reset(&mut self, code: ResetCode);

    /// Reads the next bytes, at most `max`; no bytes at the end. A transport that holds them in
    /// memory already hands that memory over instead of copying.
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        thread_memory::poll_read(self, cx, max)
    }

    /// Writes some of `bytes` and removes them from its front. A transport that keeps sent data
    /// keeps the memory instead of copying it.
    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(self).poll_write(cx, bytes))?;
        bytes.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Bytes that a write would take now, if the transport knows.
    fn write_room(&self) -> Option<usize> {
        None
    }

    /// Bytes that were written, have not arrived at the peer, and would be lost in a reset now.
    ///
    /// Zero for a transport that delivers what was written before it delivers the reset.
    fn undelivered(&self) -> ByteCount {
        ByteCount::ZERO
    }

    /// Returns the peer's abort, as far as it is visible without reading or writing.
    ///
    /// Once reading has ended, a stream that only receives would not notice the abort otherwise.
    fn aborted(&self) -> Option<ResetCode> {
        None
    }

    /// Returns the span of log lines about this stream, if it belongs to a session.
    fn span(&self) -> Span {
        Span::none()
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
    /// The stream of a successful dial.
    type Stream: ByteStream;

    /// Opens a stream. The future is ready only once the destination itself has accepted the
    /// connection; the dialer bounds the time, and resolves a name in `destination`.
    fn dial(
        &self,
        destination: &Destination,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send;

    /// Opens a stream for the application that `origin` describes. Dialers that ignore the
    /// application open it as [`Dialer::dial`] does.
    fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send {
        let _ = origin;
        self.dial(destination)
    }
}
