use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_path::Segments;
use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tracing::Span;

use super::Flow;
use super::stranded::Waiting;
use crate::transport::{ByteStream, ResetCode};

/// A connection that reports the state of its packets.
pub trait Observe {
    /// Returns what is known about the packets now.
    fn observe(&self) -> Observation;
}

/// The state of a connection's packets. Unknown values are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Observation {
    /// The connection's smoothed round-trip time.
    pub round_trip: Option<Duration>,
    /// Segments that the connection has sent since its beginning.
    pub segments: Option<Segments>,
}

impl Observe for TcpStream {
    fn observe(&self) -> Observation {
        let Ok(info) = hawser_link::tcp_info::read(self) else {
            return Observation::default();
        };
        Observation {
            round_trip: info.srtt,
            segments: Some(Segments {
                delivered: info.delivered.into(),
                again: info.total_retrans.into(),
            }),
        }
    }
}

/// A connection whose bytes are counted for its link, unless it follows the system's routes.
#[derive(Debug)]
pub struct Counted<S: Observe> {
    // Declared before the stream, so that the link's charge is given back first.
    flow: Option<Flow>,
    looked: Instant,
    stream: S,
}

impl<S: Observe> Counted<S> {
    pub(crate) fn new(stream: S, flow: Option<Flow>) -> Self {
        Self {
            flow,
            looked: Instant::now(),
            stream,
        }
    }

    /// Returns the connection itself.
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Returns the director's record of the connection; `None` if it follows the system's routes.
    pub const fn flow(&self) -> Option<&Flow> {
        self.flow.as_ref()
    }
}

impl<S: Observe> Counted<S> {
    fn count(&mut self, up: usize, down: usize) {
        let Some(flow) = self.flow.as_ref().filter(|_| up + down > 0) else {
            return;
        };
        flow.moved(ByteCount::from(up), ByteCount::from(down));
        let now = Instant::now();
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
            let observed = self.stream.observe();
            if let Some(rtt) = observed.round_trip {
                flow.round_trip(rtt);
            }
            if let Some(segments) = observed.segments {
                flow.sent(segments);
            }
        }
    }
}

impl<S: Observe> Drop for Counted<S> {
    fn drop(&mut self) {
        // Most connections end before the first look at their segments.
        let Some(flow) = &self.flow else {
            return;
        };
        if let Some(segments) = self.stream.observe().segments {
            flow.sent(segments);
        }
    }
}

impl<S: AsyncRead + Observe + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(context, buffer);
        this.count(0, buffer.filled().len().saturating_sub(before));
        this.check(polled, context, Waiting::ToRead)
    }
}

impl<S: AsyncWrite + Observe + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.count_written(polled, context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(context, bytes);
        this.count_written(polled, context)
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

impl<S: Observe> Counted<S> {
    fn count_written(
        &mut self,
        polled: Poll<io::Result<usize>>,
        context: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(written)) = &polled {
            self.count(*written, 0);
        }
        self.check(polled, context, Waiting::ToWrite)
    }

    /// Returns `polled`, or an error if the connection's link is gone.
    fn check<T>(
        &self,
        polled: Poll<io::Result<T>>,
        context: &Context<'_>,
        waiting: Waiting,
    ) -> Poll<io::Result<T>> {
        match &self.flow {
            Some(flow) => flow.stranded().check(polled, context, waiting),
            None => polled,
        }
    }
}

impl<S: ByteStream + Observe> ByteStream for Counted<S> {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let polled = self.stream.poll_read_bytes(cx, max);
        if let Poll::Ready(Ok(bytes)) = &polled {
            self.count(0, bytes.len());
        }
        self.check(polled, cx, Waiting::ToRead)
    }

    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        let polled = self.stream.poll_write_bytes(cx, bytes);
        self.count_written(polled, cx)
    }

    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(code);
    }

    fn write_room(&self) -> Option<usize> {
        self.stream.write_room()
    }

    fn undelivered(&self) -> ByteCount {
        self.stream.undelivered()
    }

    fn aborted(&self) -> Option<ResetCode> {
        self.stream.aborted()
    }

    fn span(&self) -> Span {
        self.stream.span()
    }
}

/// Interval at which the kernel is asked about a connection that moves bytes.
const LOOK_EVERY: Duration = Duration::from_millis(500);
