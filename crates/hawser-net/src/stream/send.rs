//! The sending half of a stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use hawser_session::{SHORT_WRITE, Session, StreamError};
use hawser_types::{Instant, StreamId};
use tokio::io::AsyncWrite;

use super::{Core, Failure, ReadError, SendDatagramError, WriteError};
use crate::driver::Waiting;
use crate::thread_memory;

/// The sending half of a [`BondStream`](super::BondStream).
///
/// Dropped without [`SendStream::finish`] or [`SendStream::reset`], it finishes: written data still
/// arrives, and the end after it.
#[derive(Debug)]
pub struct SendStream {
    core: Arc<Core>,
    ended: bool,
    /// Bytes that were written in slices, whose memory the session keeps.
    kept: u64,
}

impl SendStream {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self {
            core,
            ended: false,
            kept: 0,
        }
    }

    /// The stream's number in its session.
    pub fn id(&self) -> StreamId {
        self.core.id
    }

    /// Waits until the peer has accepted the stream; returns the peer's metadata.
    ///
    /// # Errors
    /// When the peer reset the stream, or the connection is over.
    pub async fn accepted(&mut self) -> Result<Bytes, ReadError> {
        let id = self.core.id;
        let driver = &self.core.driver;
        let accepted = poll_fn(|cx| {
            driver.poll_stream(cx, id, Waiting::Accept, |session, _| {
                Ok(session.peer_metadata(id))
            })
        });
        Ok(accepted.await?)
    }

    /// Writes some of `bytes`, without copying large ones, as soon as there is room. Cuts the
    /// written bytes off the front and returns their number: 0 only if `bytes` is empty. Cancel
    /// safe: a future that is dropped has taken nothing.
    ///
    /// # Errors
    /// When the peer has stopped reading or has reset the stream, this side finished, or the
    /// connection is over.
    pub async fn write_bytes(&mut self, bytes: &mut Bytes) -> Result<usize, WriteError> {
        Ok(poll_fn(|cx| self.poll_write_bytes(cx, bytes)).await?)
    }

    /// Ends this direction after the written data. Does nothing the second time.
    ///
    /// # Errors
    /// When the peer has stopped reading or has reset the stream, or the connection is over.
    pub fn finish(&mut self) -> Result<(), WriteError> {
        Ok(self.end()?)
    }

    /// Ends this direction at once: data that the peer does not hold yet is dropped, and the peer's
    /// reader receives `code`. The other direction goes on, except with a peer of an older version,
    /// which receives a reset of the whole stream.
    pub fn reset(&mut self, code: u32) {
        self.core.answer();
        self.ended = true;
        self.core.driver.reset_sending(self.core.id, code);
    }

    /// Waits until the peer holds all written data and the end, and returns `None`, or until the
    /// peer has stopped reading, and returns its code. Cancel safe.
    ///
    /// # Errors
    /// When the peer reset both directions of the stream, or the connection is over.
    pub async fn stopped(&mut self) -> Result<Option<u32>, WriteError> {
        match self.wait_for_peer(Waiting::Stopped).await {
            Ok(()) => Ok(None),
            Err(Failure::Stopped(code)) => Ok(Some(code)),
            Err(failure) => Err(failure.into()),
        }
    }

    /// Waits until the peer holds everything that was written, the end included. Call after
    /// [`SendStream::finish`]. Cancel safe.
    ///
    /// # Errors
    /// When the peer has stopped reading or has reset the stream, or the connection is over.
    pub async fn acknowledged(&mut self) -> Result<(), WriteError> {
        Ok(self.wait_for_peer(Waiting::Acknowledged).await?)
    }

    /// Sends a datagram beside the stream: once, by the first link that takes it. It may be lost,
    /// and it may overtake other datagrams and the data of the stream. The peer has to know the
    /// stream already. At most [`MAX_DATAGRAM`](hawser_wire::MAX_DATAGRAM) bytes; it may be empty.
    ///
    /// # Errors
    /// When the peer takes no datagrams, this one is too large, or the stream is over.
    pub fn send_datagram(&self, payload: Bytes) -> Result<(), SendDatagramError> {
        let id = self.core.id;
        let driver = &self.core.driver;
        driver
            .with(|session, now| session.send_datagram(now, id, payload))
            .map_err(|error| SendDatagramError::new(error, driver.end()))
    }

    pub(super) fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<Result<usize, Failure>> {
        if bytes.len() < SHORT_WRITE || !self.is_beginning() {
            return self.poll_write_kept(cx, bytes);
        }
        // Only bytes that leave now are copied: no budget covers a copy of the waiting rest.
        let written = ready!(self.poll_write_slice(cx, bytes))?;
        bytes.advance(written);
        Poll::Ready(Ok(written))
    }

    /// Writes some of `bytes`. Long ones are copied outside the session's lock.
    fn poll_write_slice(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, Failure>> {
        let id = self.core.id;
        if bytes.len() < SHORT_WRITE {
            return self.poll_some(cx, bytes.len(), |session, now| {
                session.write_slice(now, id, bytes)
            });
        }
        let room = ready!(self.poll_some(cx, bytes.len(), |session, _| session.send_room(id)))?;
        let taken = &bytes[..bytes.len().min(room)];
        let mut copy = if self.is_beginning() {
            Bytes::copy_from_slice(taken)
        } else {
            thread_memory::copy(taken)
        };
        self.poll_write_kept(cx, &mut copy)
    }

    /// Writes some of `bytes`, whose memory is kept until the peer has acknowledged them.
    fn poll_write_kept(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<Result<usize, Failure>> {
        let (id, wanted) = (self.core.id, bytes.len());
        let write = |session: &mut Session, now| session.write(now, id, bytes);
        let written = ready!(self.poll_some(cx, wanted, write))?;
        self.kept = self.kept.saturating_add(written as u64);
        Poll::Ready(Ok(written))
    }

    /// Calls `attempt` until it accepts some of the `wanted` bytes. Returns 0 at once if no bytes
    /// are wanted.
    fn poll_some(
        &self,
        cx: &mut Context<'_>,
        wanted: usize,
        attempt: impl FnOnce(&mut Session, Instant) -> Result<usize, StreamError>,
    ) -> Poll<Result<usize, Failure>> {
        if wanted == 0 {
            return Poll::Ready(Ok(0));
        }
        self.core.answer();
        let driver = &self.core.driver;
        driver.poll_stream(cx, self.core.id, Waiting::Write, |session, now| {
            let bytes = attempt(session, now)?;
            Ok((bytes > 0).then_some(bytes))
        })
    }

    /// True for the first bytes, which are copied into memory of their own: waiting data of a short
    /// stream must not keep memory that other streams could use.
    fn is_beginning(&self) -> bool {
        self.kept < BEGINNING
    }

    pub(super) fn mark_ended(&mut self) {
        self.ended = true;
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    async fn wait_for_peer(&mut self, waiting: Waiting) -> Result<(), Failure> {
        let id = self.core.id;
        let driver = &self.core.driver;
        poll_fn(|cx| {
            driver.poll_stream(cx, id, waiting, |session, _| {
                Ok(session.is_acknowledged(id).then_some(()))
            })
        })
        .await
    }

    fn end(&mut self) -> Result<(), Failure> {
        self.core.answer();
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        self.core.finish()
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut()
            .poll_write_slice(cx, bytes)
            .map_err(io::Error::from)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written data leaves as soon as a link takes it.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.end().map_err(io::Error::from))
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        if self.core.is_split() && !self.ended {
            // An error means that the direction is over already.
            drop(self.end());
        }
    }
}

/// Bytes of a stream that are copied into memory of their own.
const BEGINNING: u64 = 64 * 1024;
