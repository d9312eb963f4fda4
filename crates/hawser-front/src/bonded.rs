//! Bonded streams as the front ends see them, and the contents of their opening chunks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_keys::identity::PublicKey;
use hawser_net::association::Token;
use hawser_net::client::{Client, OpenStreamError};
use hawser_net::gateway::{Gateway, OpenToClientError};
use hawser_net::session::SessionHandle;
use hawser_net::stream::{BondStream, ResetByPeer};
use hawser_types::StreamId;
use hawser_wire::StreamKind;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tracing::Span;

use crate::connection::{EarlyData, Observation, Observe, Origin};
use crate::destination::Destination;
use crate::incoming::IncomingStream;
use crate::transport::{ByteStream, DialError, Dialer, ResetCode};

/// The purpose of a stream. The first byte of its opening chunk, a [`StreamKind`], states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A connection to a destination.
    Connect,
    /// Datagrams to and from a destination.
    Datagrams,
    /// Packets of a TUN device, see [`crate::packets`].
    Packets,
    /// A file, by the protocol of `hawser-file`.
    File,
    /// A measurement: the peer discards all bytes that it receives and reports their number.
    Sink,
    /// A measurement in the other direction: the peer sends this many bytes.
    Source(u64),
    /// The peer's reasons for the links that it chose in this session: for all its traffic, or for
    /// one stream.
    Reasons(Option<StreamId>),
    /// Other clients may reach this client through its gateway for as long as the stream is open.
    BeMet,
    /// A connection to the client with this key. From a gateway: a connection from that client.
    Meet([u8; PublicKey::LENGTH]),
    /// The gateway is to report the source addresses of datagrams with this token.
    Observe(Token),
    /// The other host reports its observed UDP addresses, and asks for the same report.
    Punch,
}

impl Purpose {
    /// Returns the purpose in a stream's opening; `None` when this version does not know it.
    pub fn of(opening: &[u8]) -> Option<Self> {
        let (_, rest) = opening.split_first()?;
        let alone = |purpose| rest.is_empty().then_some(purpose);
        match StreamKind::of_opening(opening)? {
            StreamKind::ConnectV4 | StreamKind::ConnectV6 | StreamKind::ConnectName => {
                Some(Self::Connect)
            }
            StreamKind::DatagramsV4
            | StreamKind::DatagramsV6
            | StreamKind::DatagramsName
            | StreamKind::CallV4
            | StreamKind::CallV6
            | StreamKind::CallName => Some(Self::Datagrams),
            StreamKind::Packets => Some(Self::Packets),
            StreamKind::File => alone(Self::File),
            StreamKind::Sink => alone(Self::Sink),
            StreamKind::Source => Some(Self::Source(u64::from_be_bytes(rest.try_into().ok()?))),
            StreamKind::Reasons if rest.is_empty() => Some(Self::Reasons(None)),
            StreamKind::Reasons => {
                let stream = u64::from_be_bytes(rest.try_into().ok()?);
                Some(Self::Reasons(Some(StreamId::new(stream))))
            }
            StreamKind::BeMet => alone(Self::BeMet),
            StreamKind::Meet => Some(Self::Meet(rest.try_into().ok()?)),
            StreamKind::Observe => Some(Self::Observe(rest.try_into().ok()?)),
            StreamKind::Punch => alone(Self::Punch),
        }
    }

    /// Returns the opening of a stream that has no destination.
    pub fn opening(self) -> Bytes {
        let with =
            |kind: StreamKind, rest: &[u8]| Bytes::from([&[kind.number()][..], rest].concat());
        match self {
            Self::Connect | Self::Datagrams | Self::Packets => Bytes::new(),
            Self::File => with(StreamKind::File, &[]),
            Self::Sink => with(StreamKind::Sink, &[]),
            Self::Source(size) => with(StreamKind::Source, &size.to_be_bytes()),
            Self::BeMet => with(StreamKind::BeMet, &[]),
            Self::Meet(key) => with(StreamKind::Meet, &key),
            Self::Observe(token) => with(StreamKind::Observe, &token),
            Self::Punch => with(StreamKind::Punch, &[]),
            Self::Reasons(None) => with(StreamKind::Reasons, &[]),
            Self::Reasons(Some(stream)) => with(StreamKind::Reasons, &stream.value().to_be_bytes()),
        }
    }
}

/// A bonded stream with the front ends' reset codes.
///
/// A dialed stream keeps its client, and therefore its session, until it is dropped.
#[derive(Debug)]
pub struct Bonded {
    stream: BondStream,
    /// The metadata of the acceptance, which this end will send or has received.
    answer: Bytes,
    _client: Option<Arc<Client>>,
}

impl Bonded {
    /// Wraps a stream.
    pub fn new(stream: BondStream) -> Self {
        Self {
            stream,
            answer: Bytes::new(),
            _client: None,
        }
    }

    /// Sets the metadata with which the stream will be accepted.
    #[must_use]
    pub(crate) fn with_answer(self, answer: Bytes) -> Self {
        Self { answer, ..self }
    }

    /// Returns the metadata with which the far end accepted the stream, if this end opened it.
    pub(crate) fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// Wraps a stream that the far end of a client's session has opened, and keeps the client.
    pub fn of_client(stream: BondStream, client: Arc<Client>) -> Self {
        Self {
            stream,
            answer: Bytes::new(),
            _client: Some(client),
        }
    }

    /// The session that the stream belongs to.
    pub fn session(&self) -> SessionHandle {
        SessionHandle::of(&self.stream)
    }

    /// The stream itself.
    pub fn into_inner(self) -> BondStream {
        self.stream
    }

    /// The stream.
    pub fn get_mut(&mut self) -> &mut BondStream {
        &mut self.stream
    }
}

impl ByteStream for Bonded {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let bytes = self.stream.poll_read_bytes(cx, max).map_err(named);
        bytes.map_ok(Option::unwrap_or_default)
    }

    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write_bytes(cx, bytes).map_err(named)
    }

    fn write_room(&self) -> Option<usize> {
        Some(self.stream.write_room())
    }

    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(u32::from(code.code()));
    }

    fn aborted(&self) -> Option<ResetCode> {
        self.stream.reset_code().map(reset_code)
    }

    fn span(&self) -> Span {
        self.stream.span()
    }
}

impl Observe for Bonded {
    /// Returns no values: a stream uses many connections and has none of its own.
    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl IncomingStream for Bonded {
    fn open_metadata(&self) -> &[u8] {
        self.stream.opening()
    }

    fn accept(&mut self) {
        // Fails only when the stream is over, and then the next read fails, too.
        let _ = self.stream.accept(self.answer.clone());
    }

    fn refuse(mut self, error: DialError) {
        self.stream.reset(u32::from(error.code()));
    }
}

impl AsyncRead for Bonded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream)
            .poll_read(cx, buffer)
            .map_err(named)
    }
}

impl AsyncWrite for Bonded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream)
            .poll_write(cx, bytes)
            .map_err(named)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx).map_err(named)
    }
}

impl Bonded {
    /// Splits the stream into a writer and a reader that takes chunks in order of arrival, from any
    /// channel. The stream lives until both are dropped.
    pub fn into_unordered(mut self) -> io::Result<(UnorderedReader, BondedWriter)> {
        self.stream.set_unordered()?;
        // Locked only while one half is polled, which never waits.
        let shared = Arc::new(Mutex::new(self));
        Ok((UnorderedReader(Arc::clone(&shared)), BondedWriter(shared)))
    }
}

/// The reading half of a stream whose chunks are taken in order of arrival.
#[derive(Debug)]
pub struct UnorderedReader(Arc<Mutex<Bonded>>);

/// The writing half of a stream whose chunks are taken in order of arrival.
#[derive(Debug)]
pub struct BondedWriter(Arc<Mutex<Bonded>>);

impl UnorderedReader {
    /// Returns the next chunk, with its offset in the stream; `None` after the last one.
    ///
    /// Cancel-safe: a future that is dropped before it is ready has taken no chunk.
    ///
    /// # Errors
    /// The peer's reset, or the loss of the session.
    pub async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        std::future::poll_fn(|cx| self.0.lock().stream.poll_read_chunk(cx, MAX_READ)).await
    }
}

impl AsyncWrite for BondedWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.lock()).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(cx)
    }
}

/// Dials over sessions with one far end.
pub trait SessionDialer: Dialer<Stream: Observe> {
    /// Tells whether there is a session now.
    fn is_up(&self) -> bool;
}

/// Dials through a gateway.
#[derive(Clone, Debug)]
pub struct BondDialer {
    client: Arc<Client>,
}

impl BondDialer {
    /// Dials over the sessions of `client`.
    pub fn new(client: Arc<Client>) -> Self {
        Self { client }
    }
}

impl SessionDialer for BondDialer {
    fn is_up(&self) -> bool {
        self.client.is_admitted()
    }
}

impl Dialer for BondDialer {
    type Stream = Bonded;

    async fn dial(&self, destination: &Destination) -> Result<Bonded, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let opening = Bytes::from(destination.to_bytes());
        open(&self.client, opening, origin).await
    }
}

/// Opens a stream over the session of a client, and waits until the far end accepts it.
pub(crate) async fn open(
    client: &Arc<Client>,
    opening: Bytes,
    origin: &Origin,
) -> Result<Bonded, DialError> {
    let stream = client.open_for(origin.group(), opening).await;
    let stream = stream.map_err(|error| match error {
        OpenStreamError::Refused(_) => DialError::LimitReached,
        _ => DialError::GatewayUnavailable,
    })?;
    accepted(stream, Some(Arc::clone(client)), origin).await
}

/// Dials over a session that the far end has begun, as a client of this host's own listener.
#[derive(Clone)]
pub(crate) struct DoorDialer {
    door: Arc<Gateway>,
    peer: PublicKey,
}

impl DoorDialer {
    pub(crate) fn new(door: Arc<Gateway>, peer: PublicKey) -> Self {
        Self { door, peer }
    }
}

impl Dialer for DoorDialer {
    type Stream = Bonded;

    async fn dial(&self, destination: &Destination) -> Result<Bonded, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let opening = Bytes::from(destination.to_bytes());
        let stream = self.door.open_for(&self.peer, origin.group(), opening);
        let stream = stream.map_err(|error| match error {
            OpenToClientError::Refused(_) => DialError::LimitReached,
            _ => DialError::GatewayUnavailable,
        })?;
        accepted(stream, None, origin).await
    }
}

/// Waits until the far end has connected a stream to its destination. Sends data that the
/// application has already written without waiting.
async fn accepted(
    mut stream: BondStream,
    client: Option<Arc<Client>>,
    origin: &Origin,
) -> Result<Bonded, DialError> {
    if let Some(label) = origin.label() {
        stream.set_label(label);
    }
    let accepted = match &origin.early {
        Some(early) => accepted_after(&mut stream, early).await,
        None => stream.accepted().await,
    };
    match accepted {
        Ok(answer) => Ok(Bonded {
            stream,
            answer,
            _client: client,
        }),
        Err(error) => Err(refusal(&error).unwrap_or(DialError::GatewayUnavailable)),
    }
}

async fn accepted_after(stream: &mut BondStream, early: &EarlyData) -> io::Result<Bytes> {
    loop {
        tokio::select! {
            accepted = stream.accepted() => return accepted,
            mut bytes = early.next() => {
                while !bytes.is_empty() {
                    if stream.write_bytes(&mut bytes).await.is_err() {
                        // `accepted` fails, too, and its error has the reason.
                        return stream.accepted().await;
                    }
                }
            }
        }
    }
}

/// Returns why the far end did not accept a stream, if it gave a reason.
pub(crate) fn refusal(error: &io::Error) -> Option<DialError> {
    let code = u16::try_from(reset_by_peer(error)?).ok()?;
    DialError::from_code(code)
}

fn named(error: io::Error) -> io::Error {
    match reset_by_peer(&error) {
        Some(code) => reset_code(code).into(),
        None if error.kind() == io::ErrorKind::ConnectionAborted => ResetCode::SessionLost.into(),
        None => error,
    }
}

fn reset_by_peer(error: &io::Error) -> Option<u32> {
    let ResetByPeer { code } = error.get_ref()?.downcast_ref()?;
    Some(*code)
}

fn reset_code(code: u32) -> ResetCode {
    // 0: the stream was dropped without a code, as a closed socket answers later data.
    let known = u16::try_from(code).ok().and_then(ResetCode::from_code);
    known.unwrap_or(ResetCode::Aborted)
}

const MAX_READ: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stream_is_for_comes_back_as_it_went() {
        for purpose in [
            Purpose::File,
            Purpose::Sink,
            Purpose::Source(u64::MAX - 1),
            Purpose::Reasons(None),
            Purpose::Reasons(Some(StreamId::new(7))),
            Purpose::BeMet,
            Purpose::Meet([7; 32]),
            Purpose::Observe([7; 16]),
            Purpose::Punch,
        ] {
            assert_eq!(Purpose::of(&purpose.opening()), Some(purpose));
        }
        assert_eq!(Purpose::of(&[2, 1]), Some(Purpose::Connect));
        assert_eq!(Purpose::of(&[5, 1]), Some(Purpose::Datagrams));
        for unknown in [
            &[][..],
            &[0],
            &[StreamKind::Source.number(), 1, 2],
            &[StreamKind::File.number(), 0],
            &[StreamKind::Reasons.number(), 7],
            &[StreamKind::Meet.number(), 7],
        ] {
            assert_eq!(Purpose::of(unknown), None);
        }
    }
}
