//! A running session, as its application sees it: streams, its end, and its records.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use hawser_session::recorder::Recorder;
use hawser_session::{OpenError, SessionSnapshot};
use hawser_types::{ChannelId, Instant, LinkIndex, SessionId, StreamGroup, StreamId};
use tracing::Span;

pub use crate::driver::ConnectionError;
use crate::driver::Driver;
use crate::stream::BondStream;

/// A handle to a session, of either side. A clone is another handle to the same session.
///
/// A client's session lives for as long as its [`Client`](crate::client::Client) keeps it on
/// links, a gateway's for as long as its [`Gateway`](crate::gateway::Gateway) is there.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    driver: Driver,
}

impl SessionHandle {
    pub(crate) fn new(driver: Driver) -> Self {
        Self { driver }
    }

    /// The session that a stream belongs to.
    pub fn of(stream: &BondStream) -> Self {
        Self::new(stream.driver().clone())
    }

    /// The session's id, as both ends' logs show it.
    pub fn id(&self) -> SessionId {
        self.driver.id()
    }

    /// The span of the session's log lines.
    pub fn span(&self) -> &Span {
        self.driver.span()
    }

    /// Opens a stream; its first chunk carries `metadata`, at most 1024 bytes.
    pub fn open(&self, metadata: Bytes) -> Result<BondStream, OpenError> {
        let id = self.driver.open_stream(StreamGroup::OWN, metadata)?;
        Ok(BondStream::new(self.driver.clone(), id, Bytes::new()))
    }

    /// Waits for the next stream that the peer opens; `None` once the session is over. Can be
    /// dropped and called again without losing a stream.
    pub async fn accept(&self) -> Option<BondStream> {
        let id = poll_fn(|cx| self.driver.poll_incoming(cx)).await?;
        let opening = self.driver.with(|session, _| session.peer_metadata(id));
        let opening = opening.unwrap_or_default();
        Some(BondStream::new(self.driver.clone(), id, opening))
    }

    /// True if the peer takes datagrams; `None` while this is unknown.
    pub fn takes_datagrams(&self) -> Option<bool> {
        self.driver.with(|session, _| session.takes_datagrams())
    }

    /// Begins the end in order: written data still arrives, and then the peer receives `code` and
    /// the first 512 bytes of `reason`. [`SessionHandle::ended`] waits for that.
    pub fn close(&self, code: u32, reason: &str) {
        self.driver.close_because(code, reason);
    }

    /// Ends the session at once. The peer is not told, and data in flight is lost.
    pub fn abort(&self) {
        self.driver.abort();
    }

    /// Waits until the session is over.
    pub async fn ended(&self) -> ConnectionError {
        let mut changes = self.driver.changes();
        loop {
            if let Some(reason) = self.driver.end() {
                return reason;
            }
            if changes.changed().await.is_err() {
                return ConnectionError::Lost;
            }
        }
    }

    /// Waits until this session is over, or the [`Client`](crate::client::Client) that began it
    /// uses another session for new streams. Open streams go on in the latter case; a long-lived
    /// stream is better opened anew in the other session.
    pub async fn superseded(&self) {
        let mut changes = self.driver.changes();
        while !self.driver.is_superseded() && self.driver.closed().is_none() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns why the session is over; `None` while it is open.
    pub fn end(&self) -> Option<ConnectionError> {
        self.driver.end()
    }

    /// The session at this moment, with at most `max_streams` of its streams.
    pub fn snapshot(&self, max_streams: usize) -> SessionSnapshot {
        self.driver.snapshot(max_streams)
    }

    /// The applications of these streams, where [`BondStream::set_label`] was called and the label
    /// knows the application by now.
    pub fn labels(&self, streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        self.driver.labels(streams)
    }

    /// Reads the session's recorder.
    pub fn recorder<R>(&self, read: impl FnOnce(&Recorder, Instant) -> R) -> R {
        self.driver.recorder(read)
    }

    /// Returns this end's address of each channel in a snapshot, on each of the channel's links: an
    /// association uses several links.
    pub fn addresses(
        &self,
        snapshot: &SessionSnapshot,
    ) -> BTreeMap<(ChannelId, LinkIndex), IpAddr> {
        self.driver.addresses(&snapshot.channels)
    }
}
