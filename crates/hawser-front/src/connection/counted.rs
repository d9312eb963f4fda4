use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Flow;
use crate::transport::{ByteStream, ResetCode};

/// A connection that can tell how long its packets are under way.
pub trait RoundTrip {
    /// Its smoothed round-trip time as it is now; `None` where that is not known.
    fn round_trip(&self) -> Option<Duration>;
}

impl RoundTrip for TcpStream {
    fn round_trip(&self) -> Option<Duration> {
        hawser_net::tcp_info::read(self).ok()?.srtt
    }
}

/// A connection whose bytes are counted for its link; one that goes as the system has it is not.
#[derive(Debug)]
pub struct Counted<S> {
    // Ahead of the stream, so that the link is given back what it was charged first.
    flow: Option<Flow>,
    looked: Instant,
    stream: S,
}

impl<S> Counted<S> {
    pub(super) fn new(stream: S, flow: Option<Flow>) -> Self {
        Self {
            flow,
            looked: Instant::now(),
            stream,
        }
    }

    /// The connection itself.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// How it is counted; `None` for one that goes as the system has it.
    pub const fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }
}

impl<S: RoundTrip> Counted<S> {
    fn count(&mut self, up: usize, down: usize) {
        let Some(flow) = self.flow.as_ref().filter(|_| up + down > 0) else {
            return;
        };
        flow.moved(ByteCount::from(up), ByteCount::from(down));
        let now = Instant::now();
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
            if let Some(rtt) = self.stream.round_trip() {
                flow.round_trip(rtt);
            }
        }
    }
}

impl<S: AsyncRead + RoundTrip + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.count(0, buffer.filled().len().saturating_sub(before));
        polled
    }
}

impl<S: AsyncWrite + RoundTrip + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.count_written(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.count_written(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: RoundTrip> Counted<S> {
    fn count_written(&mut self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(written)) = &polled {
            self.count(*written, 0);
        }
        polled
    }
}

impl<S: ByteStream + RoundTrip> ByteStream for Counted<S> {
    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(code);
    }

    fn undelivered(&self) -> ByteCount {
        self.stream.undelivered()
    }

    fn aborted(&self) -> Option<ResetCode> {
        self.stream.aborted()
    }
}

/// How often the kernel is asked for the round-trip time of a connection that moves.
const LOOK_EVERY: Duration = Duration::from_millis(500);
