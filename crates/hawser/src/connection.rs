use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_net::client::{Client, ClientSnapshot, OpenStreamError};
use hawser_net::identity::PublicKey;
use hawser_net::stream::BondStream;

use crate::endpoint::Inner;

/// A connection to one peer over every link, on which both sides open streams.
///
/// It lives for as long as any link does, and without one for
/// [`survive`](hawser_session::SessionConfig::survive); after that it begins anew by itself, but
/// streams that were open then are lost. Streams end with their connection: keep it.
///
/// Dropping it ends it in order, in the background: what was written still goes out, unless the
/// program ends first. [`Connection::close`] waits for that.
#[derive(Debug)]
pub struct Connection {
    /// Taken by `close` and `drop` only.
    client: Option<Client>,
    peer: PublicKey,
    endpoint: Arc<Inner>,
}

impl Connection {
    pub(crate) fn new(client: Client, peer: PublicKey, endpoint: Arc<Inner>) -> Self {
        let client = Some(client);
        Self {
            client,
            peer,
            endpoint,
        }
    }

    /// The key that the peer has proved.
    pub fn peer(&self) -> PublicKey {
        self.peer
    }

    /// Opens a stream. The peer hears of it at once, with the first bytes that are written.
    pub async fn open(&self) -> Result<BondStream, OpenStreamError> {
        self.open_with(Bytes::new()).await
    }

    /// Opens a stream and tells the peer what it is for: [`BondStream::opening`] there. At most
    /// 1024 bytes.
    pub async fn open_with(&self, opening: Bytes) -> Result<BondStream, OpenStreamError> {
        match &self.client {
            Some(client) => client.open(opening).await,
            None => Err(OpenStreamError::Closed),
        }
    }

    /// The next stream that the peer opens ([`BondListener::open`](crate::BondListener::open)
    /// there). Can be dropped and called again without losing one.
    ///
    /// The peer may have [`max_streams`](hawser_session::SessionConfig::max_streams) open here at
    /// once, those that wait for this included, and can send on each no more than on any stream
    /// that nobody reads.
    pub async fn accept(&self) -> io::Result<BondStream> {
        let over = || io::Error::new(io::ErrorKind::NotConnected, "the connection is closed");
        let client = self.client.as_ref().ok_or_else(over)?;
        loop {
            let mut stream = client.accept().await.ok_or_else(over)?;
            // One that was reset meanwhile is nobody's business.
            if stream.accept(Bytes::new()).is_ok() {
                return Ok(stream);
            }
        }
    }

    /// The links, channels and streams at this moment.
    pub fn snapshot(&self) -> ClientSnapshot {
        match &self.client {
            Some(client) => client.snapshot(MAX_STREAMS_SHOWN),
            None => ClientSnapshot {
                session: None,
                problem: None,
                links: Vec::new(),
            },
        }
    }

    /// Ends the connection in order: waits until everything that was written has arrived, at most
    /// for `patience`.
    pub async fn close(mut self, patience: Duration) {
        if let Some(client) = self.client.take() {
            client.close(patience).await;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // It follows the links until then.
            let endpoint = Arc::clone(&self.endpoint);
            runtime.spawn(async move {
                client.close(DROP_PATIENCE).await;
                drop(endpoint);
            });
        }
    }
}

const DROP_PATIENCE: Duration = Duration::from_secs(30);
const MAX_STREAMS_SHOWN: usize = 1024;
