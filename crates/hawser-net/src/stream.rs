//! A byte stream over every link.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_session::{DatagramError, ReadOutcome, StreamError};
use hawser_types::StreamId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::driver::{Driver, Waiting};

/// A two-way byte stream that uses every link between two hosts.
///
/// Behaves as a TCP connection does: writing is buffered and held back when the peer does not
/// read, `shutdown` ends one direction, and dropping the stream lets what was written arrive.
/// [`BondStream::reset`] ends both directions at once.
#[derive(Debug)]
pub struct BondStream {
    driver: Driver,
    id: StreamId,
    opening: Bytes,
    write_ended: bool,
    read_ended: bool,
    /// The peer opened the stream and has heard nothing yet.
    unanswered: bool,
}

/// Says whose a stream is, for people; `None` while that is not known. Called when somebody looks, as
/// often as that happens, and not to wait.
pub type Label = Arc<dyn Fn() -> Option<Arc<str>> + Send + Sync>;

/// The inner error of an [`io::Error`] of kind `ConnectionReset`: the peer reset the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer reset the stream with code {code}")]
pub struct ResetByPeer {
    /// The peer's code; 0 when it gave none.
    pub code: u32,
}

impl BondStream {
    /// `opening`: what the peer said when it opened the stream; empty for one's own.
    pub(crate) fn new(driver: Driver, id: StreamId, opening: Bytes) -> Self {
        Self {
            unanswered: !driver.is_own(id),
            driver,
            id,
            opening,
            write_ended: false,
            read_ended: false,
        }
    }

    /// The stream's number in its session.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Says whose the stream is, for those who look at its client: [`Client::labels`]. The peer does not
    /// hear of it.
    ///
    /// [`Client::labels`]: crate::client::Client::labels
    pub fn set_label(&self, label: Label) {
        self.driver.set_label(self.id, label);
    }

    /// What the peer said when it opened this stream; empty for a stream of one's own.
    pub fn opening(&self) -> &Bytes {
        &self.opening
    }

    /// Waits until the peer has accepted the stream; gives what it said then.
    pub async fn accepted(&mut self) -> io::Result<Bytes> {
        poll_fn(|cx| {
            self.driver
                .poll_stream(cx, self.id, Waiting::Accept, |session, _| {
                    Ok(session.peer_metadata(self.id))
                })
        })
        .await
    }

    /// Accepts a stream that the peer opened; it hears `metadata`.
    pub fn accept(&mut self, metadata: Bytes) -> io::Result<()> {
        self.unanswered = false;
        let accepted = self
            .driver
            .with(|session, now| session.accept_stream(now, self.id, metadata));
        accepted.map_err(stream_error)
    }

    /// Ends both directions at once; the peer hears `code`.
    pub fn reset(&mut self, code: u32) {
        self.unanswered = false;
        self.write_ended = true;
        self.read_ended = true;
        self.driver
            .with(|session, now| session.reset(now, self.id, code));
    }

    /// Why the peer reset the stream, if it has.
    pub fn reset_code(&self) -> Option<u32> {
        self.driver.reset_code(self.id)
    }

    /// Writes some of `bytes` without copying; what was taken is cut off the front.
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.unanswered = false;
        self.driver
            .poll_stream(cx, self.id, Waiting::Write, |session, now| {
                let written = session.write(now, self.id, bytes).map_err(stream_error)?;
                Ok((written > 0).then_some(written))
            })
    }

    /// The next bytes, at most `max`, without copying; `None` at the end of the stream.
    pub fn poll_read_bytes(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<io::Result<Option<Bytes>>> {
        self.poll_read_chunk(cx, max)
            .map_ok(|chunk| chunk.map(|(_, bytes)| bytes))
    }

    /// The next bytes as they come, each with its position in the stream: see
    /// [`BondStream::set_unordered`]. `None` once every byte was handed out.
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<io::Result<Option<(u64, Bytes)>>> {
        if self.read_ended {
            return Poll::Ready(Ok(None));
        }
        let id = self.id;
        let read = self
            .driver
            .poll_stream(cx, id, Waiting::Read, |session, now| {
                match session.read(now, id, max).map_err(stream_error)? {
                    ReadOutcome::Data(offset, bytes) => Ok(Some(Some((offset, bytes)))),
                    ReadOutcome::End => Ok(Some(None)),
                    ReadOutcome::Blocked => Ok(None),
                }
            });
        if let Poll::Ready(Ok(None)) = &read {
            self.read_ended = true;
        }
        read
    }

    /// From now on [`BondStream::poll_read_chunk`] hands out bytes as they come, by any channel,
    /// rather than in order.
    pub fn set_unordered(&mut self) -> io::Result<()> {
        self.driver
            .with(|session, _| session.set_unordered(self.id))
            .map_err(stream_error)
    }

    /// Says that the datagrams beside the stream are a call's: where they go over an association, they may be
    /// sent twice rather than be lost.
    pub fn set_call(&self) {
        self.driver.with(|session, _| session.set_call(self.id));
    }

    /// Sends a datagram beside the stream: once, by any link, as soon as one takes it. It may be
    /// lost, and it may overtake others and what is written to the stream. The peer has to know
    /// the stream already.
    ///
    /// # Errors
    /// When the peer takes no datagrams, this one is too large, or the stream is over.
    pub fn send_datagram(&self, payload: Bytes) -> io::Result<()> {
        self.driver
            .with(|session, now| session.send_datagram(now, self.id, payload))
            .map_err(|error| match error {
                DatagramError::Stream(error) => stream_error(error),
                _ => io::Error::new(io::ErrorKind::InvalidInput, error),
            })
    }

    /// The next datagram that came beside the stream.
    ///
    /// # Errors
    /// When the stream is over.
    pub fn poll_datagram(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.driver
            .poll_stream(cx, self.id, Waiting::Datagram, |session, _| {
                session.receive_datagram(self.id).map_err(stream_error)
            })
    }

    /// Waits until the peer holds everything that was written, the end included. Call after
    /// `shutdown`.
    pub async fn acknowledged(&mut self) -> io::Result<()> {
        let id = self.id;
        poll_fn(|cx| {
            self.driver
                .poll_stream(cx, id, Waiting::Acknowledged, |session, _| {
                    Ok(session.is_acknowledged(id).then_some(()))
                })
        })
        .await
    }
}

impl AsyncRead for BondStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        self.poll_read_bytes(cx, buffer.remaining())
            .map_ok(|bytes| {
                if let Some(bytes) = bytes {
                    buffer.put_slice(&bytes);
                }
            })
    }
}

impl AsyncWrite for BondStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.unanswered = false;
        let id = self.id;
        self.driver
            .poll_stream(cx, id, Waiting::Write, |session, now| {
                let written = session.write_slice(now, id, bytes).map_err(stream_error)?;
                Ok((written > 0).then_some(written))
            })
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // What was written is on its way as soon as a link takes it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.unanswered = false;
        if std::mem::replace(&mut self.write_ended, true) {
            return Poll::Ready(Ok(()));
        }
        let id = self.id;
        Poll::Ready(
            match self.driver.with(|session, now| session.finish(now, id)) {
                Ok(()) => Ok(()),
                Err(error) => Err(match self.driver.reset_code(id) {
                    Some(code) => {
                        io::Error::new(io::ErrorKind::ConnectionReset, ResetByPeer { code })
                    }
                    None => stream_error(error),
                }),
            },
        )
    }
}

impl Drop for BondStream {
    fn drop(&mut self) {
        if self.unanswered {
            // Letting it end in order would tell the peer that it was accepted.
            self.reset(hawser_session::CODE_LIMIT_REACHED);
        }
        self.driver.forget_stream(self.id);
    }
}

fn stream_error(error: StreamError) -> io::Error {
    let kind = match error {
        StreamError::Finished => io::ErrorKind::BrokenPipe,
        StreamError::Reset(_) => io::ErrorKind::ConnectionReset,
        _ => io::ErrorKind::NotConnected,
    };
    io::Error::new(kind, error)
}
