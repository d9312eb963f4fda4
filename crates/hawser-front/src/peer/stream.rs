use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::connection::{Counted, Observe};
use crate::transport::{ByteStream, ResetCode};

/// A connection that went over a link, or over a session with a peer or a gateway.
#[derive(Debug)]
pub enum PeerStream<D, B> {
    /// Over one link.
    Direct(D),
    /// Over a session.
    Bonded(B),
}

/// A connection that knows where it ended up.
pub trait Remote {
    /// The address that it goes to over a link; `None` where it goes as the system has it, to this
    /// machine or to a network that one link alone leads to, and where it goes by a gateway.
    fn remote(&self) -> Option<IpAddr>;
}

impl Remote for TcpStream {
    fn remote(&self) -> Option<IpAddr> {
        Some(self.peer_addr().ok()?.ip())
    }
}

impl<S: Remote + Observe> Remote for Counted<S> {
    fn remote(&self) -> Option<IpAddr> {
        self.flow()?;
        self.get_ref().remote()
    }
}

impl<D: Remote, B> Remote for PeerStream<D, B> {
    fn remote(&self) -> Option<IpAddr> {
        match self {
            Self::Direct(stream) => stream.remote(),
            // Nobody here knows where it ended up.
            Self::Bonded(_) => None,
        }
    }
}

/// Does the same with whichever it is.
macro_rules! either {
    ($this:expr, $stream:ident => $act:expr) => {
        match $this {
            PeerStream::Direct($stream) => $act,
            PeerStream::Bonded($stream) => $act,
        }
    };
}

impl<D: ByteStream, B: ByteStream> ByteStream for PeerStream<D, B> {
    fn reset(&mut self, code: ResetCode) {
        either!(self, stream => stream.reset(code));
    }

    fn undelivered(&self) -> ByteCount {
        either!(self, stream => stream.undelivered())
    }

    fn aborted(&self) -> Option<ResetCode> {
        either!(self, stream => stream.aborted())
    }
}

impl<D: AsyncRead + Unpin, B: AsyncRead + Unpin> AsyncRead for PeerStream<D, B> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl<D: AsyncWrite + Unpin, B: AsyncWrite + Unpin> AsyncWrite for PeerStream<D, B> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
