//! The receiving half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_session::ReadOutcome;
use hawser_types::StreamId;
use tokio::io::{AsyncRead, ReadBuf};

use super::{Core, Failure, ReadError};
use crate::driver::Waiting;

/// The receiving half of a [`BondStream`](super::BondStream).
///
/// Dropped before its end, it stops the peer's writer with code 0.
#[derive(Debug)]
pub struct RecvStream {
    core: Arc<Core>,
    /// The end was read, or this side has stopped reading.
    ended: bool,
    unordered: bool,
}

/// Bytes of a stream with their position.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// Position of the first byte in the stream.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

impl RecvStream {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            ended: false,
            unordered: false,
        }
    }

    /// The stream's number in its session.
    pub fn id(&self) -> StreamId {
        self.core.id
    }

    /// Returns the peer's metadata when it opened this stream; empty if this side opened it.
    pub fn opening(&self) -> &Bytes {
        &self.core.opening
    }

    /// Waits for the next bytes in order, at most `max`, without copying; `None` at the end.
    /// Cancel safe: a future that is dropped has taken nothing.
    ///
    /// # Errors
    /// When the peer reset the stream, the connection is over, or the stream was read out of order
    /// before.
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        if self.unordered {
            return Err(ReadError::Unordered);
        }
        Ok(poll_fn(|cx| self.poll_chunk(cx, max)).await?)
    }

    /// Waits for bytes in the order of their arrival, at most `max`; `None` once every byte was
    /// handed out. Bytes that wait behind a lost chunk are available at once. From the first call
    /// on the stream can't be read in order any more. Cancel safe, as [`RecvStream::read_chunk`].
    ///
    /// # Errors
    /// When the peer reset the stream, or the connection is over.
    pub async fn read_chunk_unordered(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        if !self.unordered && !self.ended {
            self.set_unordered()?;
        }
        Ok(poll_fn(|cx| self.poll_chunk(cx, max)).await?)
    }

    /// Stops reading: the peer's writer receives `code`, and arriving bytes are dropped. Reads
    /// return the end from now on. A peer of an older version is not told.
    pub fn stop(&mut self, code: u32) {
        if !std::mem::replace(&mut self.ended, true) {
            self.core.driver.stop_reading(self.core.id, code);
        }
    }

    /// Waits for the next datagram beside the stream. Datagrams that were not taken are kept within
    /// bounds, and the oldest are dropped first. Cancel safe: a future that is dropped has taken
    /// none.
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn read_datagram(&mut self) -> Result<Bytes, ReadError> {
        Ok(poll_fn(|cx| self.poll_datagram(cx)).await?)
    }

    pub(super) fn poll_datagram(&self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Failure>> {
        let id = self.core.id;
        self.core
            .driver
            .poll_stream(cx, id, Waiting::Datagram, |session, _| {
                session.receive_datagram(id)
            })
    }

    pub(super) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Option<Chunk>, Failure>> {
        if self.ended {
            return Poll::Ready(Ok(None));
        }
        let id = self.core.id;
        let driver = &self.core.driver;
        let read = driver.poll_stream(cx, id, Waiting::Read, |session, now| {
            Ok(match session.read(now, id, max)? {
                ReadOutcome::Data(offset, bytes) => Some(Some(Chunk { offset, bytes })),
                ReadOutcome::End => Some(None),
                ReadOutcome::Blocked => None,
            })
        });
        if let Poll::Ready(Ok(None)) = &read {
            self.ended = true;
        }
        read
    }

    pub(super) fn set_unordered(&mut self) -> Result<(), Failure> {
        self.core.unordered()?;
        self.unordered = true;
        Ok(())
    }

    pub(super) fn mark_ended(&mut self) {
        self.ended = true;
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if self.unordered {
            return Poll::Ready(Err(ReadError::Unordered.into()));
        }
        self.poll_chunk(cx, buffer.remaining())
            .map_ok(|chunk| {
                if let Some(chunk) = chunk {
                    buffer.put_slice(&chunk.bytes);
                }
            })
            .map_err(io::Error::from)
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        if self.core.is_split() {
            self.stop(0);
        }
    }
}
