//! A byte stream over every link.

mod error;
mod receive;
mod send;
mod shared;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::PacketFlow;
use hawser_session::recorder::Recorder;
use hawser_types::{Instant, StreamId};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::Span;

use crate::driver::{Driver, Failure};
pub use crate::driver::{Label, PacketLane, PacketSink};
use crate::spans;
pub use error::{ReadError, ResetByPeer, SendDatagramError, StoppedByPeer, WriteError};
pub use receive::{Chunk, RecvStream};
pub use send::SendStream;
use shared::Core;

/// A two-way byte stream that uses every link between two hosts.
///
/// Behaves as a TCP connection does: writing is buffered and held back when the peer does not read,
/// `shutdown` ends one direction, and written data still arrives after the stream is dropped.
/// [`BondStream::reset`] ends both directions at once. [`BondStream::into_split`] gives its two
/// directions to two owners.
#[derive(Debug)]
pub struct BondStream {
    receive: RecvStream,
    send: SendStream,
}

/// Halves of two different streams, which can't be joined; they are given back.
#[derive(Debug, thiserror::Error)]
#[error("the halves are of different streams")]
pub struct RejoinError(pub RecvStream, pub SendStream);

impl BondStream {
    /// `opening`: the peer's metadata when it opened the stream; empty if this side opened it.
    pub(crate) fn new(driver: Driver, id: StreamId, opening: Bytes) -> Self {
        let core = Arc::new(Core::new(driver, id, opening));
        Self {
            receive: RecvStream::new(Arc::clone(&core)),
            send: SendStream::new(core),
        }
    }

    /// The stream's number in its session.
    pub fn id(&self) -> StreamId {
        self.send.id()
    }

    /// Sets the application that the stream belongs to, for [`Client::labels`]. The peer is not
    /// told. For Hawser's own programs.
    ///
    /// [`Client::labels`]: crate::client::Client::labels
    #[doc(hidden)]
    pub fn set_label(&self, label: Label) {
        self.core().driver.set_label(self.id(), label);
    }

    /// Passes the recorder of the stream's session, and its policy for chunks, to `read`. For
    /// Hawser's own programs.
    #[doc(hidden)]
    pub fn recorded<R>(&self, read: impl FnOnce(&Recorder, Instant, ChunkPolicy) -> R) -> R {
        let driver = &self.core().driver;
        let policy = driver.with(|session, _| session.scheduler());
        driver.recorder(|recorder, now| read(recorder, now, policy))
    }

    /// At most `most` flows of packets of the stream's session, the most recently active. For
    /// Hawser's own programs.
    #[doc(hidden)]
    pub fn packet_flows(&self, most: usize) -> Vec<PacketFlow> {
        self.core().driver.packet_flows(most).0
    }

    /// Returns the peer's metadata when it opened this stream; empty if this side opened it.
    pub fn opening(&self) -> &Bytes {
        self.receive.opening()
    }

    /// Returns the span of the stream in the log, inside that of its session.
    #[doc(hidden)]
    pub fn span(&self) -> Span {
        spans::stream(self.driver().span(), self.id(), self.opening())
    }

    /// Returns the driver of the session that the stream belongs to.
    pub(crate) fn driver(&self) -> &Driver {
        &self.core().driver
    }

    /// Waits until the peer has accepted the stream; returns the peer's metadata.
    pub async fn accepted(&mut self) -> io::Result<Bytes> {
        Ok(self.send.accepted().await?)
    }

    /// Accepts a stream that the peer opened; the peer receives `metadata`.
    pub fn accept(&mut self, metadata: Bytes) -> io::Result<()> {
        self.core().answer();
        let id = self.id();
        let driver = &self.core().driver;
        let accepted = driver.with(|session, now| session.accept_stream(now, id, metadata));
        accepted.map_err(|error| Failure::Refused(error).into())
    }

    /// Splits the stream into its directions. A half that is dropped ends its direction: written
    /// data still arrives, and a peer that writes to it is stopped, with code 0.
    pub fn into_split(self) -> (RecvStream, SendStream) {
        self.core().set_split(true);
        (self.receive, self.send)
    }

    /// Makes the stream that opened a tunnel the lane of the tunnel's packets. For Hawser's own
    /// programs.
    #[doc(hidden)]
    pub fn into_packet_lane(self) -> PacketLane {
        let (id, driver) = (self.id(), self.driver().clone());
        driver.packet_lane(id, Box::new(self.into_split()))
    }

    /// Joins the halves of a stream again.
    ///
    /// # Errors
    /// Gives both halves back if they are of different streams.
    pub fn rejoin(receive: RecvStream, send: SendStream) -> Result<Self, RejoinError> {
        if !Arc::ptr_eq(receive.core(), send.core()) {
            return Err(RejoinError(receive, send));
        }
        send.core().set_split(false);
        Ok(Self { receive, send })
    }

    /// Ends both directions at once; the peer receives `code`.
    pub fn reset(&mut self, code: u32) {
        self.core().answer();
        self.send.mark_ended();
        self.receive.mark_ended();
        self.core().reset(code);
    }

    /// Returns the code with which the peer reset the stream, if it has.
    pub fn reset_code(&self) -> Option<u32> {
        self.core().driver.reset_code(self.id())
    }

    /// Returns how many bytes a write would take now.
    pub fn write_room(&self) -> usize {
        self.core().driver.write_room(self.id())
    }

    /// Writes some of `bytes` without copying; cuts the written bytes off the front.
    pub fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        self.send
            .poll_write_bytes(cx, bytes)
            .map_err(io::Error::from)
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

    /// The next bytes as they arrive, with their position in the stream: see
    /// [`BondStream::set_unordered`]. `None` once every byte was handed out.
    pub fn poll_read_chunk(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<io::Result<Option<(u64, Bytes)>>> {
        self.receive
            .poll_chunk(cx, max)
            .map_ok(|chunk| chunk.map(|chunk| (chunk.offset, chunk.bytes)))
            .map_err(io::Error::from)
    }

    /// Waits for the next bytes in order, at most `max`, without copying; `None` at the end.
    /// Cancel safe: a future that is dropped has taken nothing.
    ///
    /// # Errors
    /// As [`RecvStream::read_chunk`].
    pub async fn read_chunk(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        self.receive.read_chunk(max).await
    }

    /// Waits for bytes in the order of arrival: [`RecvStream::read_chunk_unordered`].
    ///
    /// # Errors
    /// As [`RecvStream::read_chunk`].
    pub async fn read_chunk_unordered(&mut self, max: usize) -> Result<Option<Chunk>, ReadError> {
        self.receive.read_chunk_unordered(max).await
    }

    /// Writes some of `bytes` without copying: [`SendStream::write_bytes`].
    ///
    /// # Errors
    /// As [`SendStream::write_bytes`].
    pub async fn write_bytes(&mut self, bytes: &mut Bytes) -> Result<usize, WriteError> {
        self.send.write_bytes(bytes).await
    }

    /// Makes [`BondStream::poll_read_chunk`] hand out bytes as they arrive, by any channel, rather
    /// than in order.
    pub fn set_unordered(&mut self) -> io::Result<()> {
        Ok(self.receive.set_unordered()?)
    }

    /// Marks the datagrams beside the stream as those of a call: an association may duplicate them,
    /// to lose fewer.
    pub fn set_call(&self) {
        let id = self.id();
        self.core().driver.with(|session, _| session.set_call(id));
    }

    /// Sends a datagram beside the stream: [`SendStream::send_datagram`].
    ///
    /// # Errors
    /// As [`SendStream::send_datagram`].
    pub fn send_datagram(&self, payload: Bytes) -> Result<(), SendDatagramError> {
        self.send.send_datagram(payload)
    }

    /// Waits for the next datagram that came beside the stream: [`RecvStream::read_datagram`].
    ///
    /// # Errors
    /// When the stream is over.
    pub async fn read_datagram(&mut self) -> Result<Bytes, ReadError> {
        self.receive.read_datagram().await
    }

    /// The next datagram that came beside the stream.
    ///
    /// # Errors
    /// When the stream is over.
    pub fn poll_datagram(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        self.receive.poll_datagram(cx).map_err(io::Error::from)
    }

    /// Waits until the peer holds everything that was written, the end included. Call after
    /// `shutdown`.
    ///
    /// # Errors
    /// When the peer has reset the stream, or has stopped reading it.
    pub async fn acknowledged(&mut self) -> io::Result<()> {
        Ok(self.send.acknowledged().await?)
    }

    fn core(&self) -> &Core {
        self.send.core()
    }
}

impl AsyncRead for BondStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.receive).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BondStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}
