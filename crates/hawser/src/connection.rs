use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_keys::identity::PublicKey;
use hawser_net::client::{Client, LinkStatus};
use hawser_net::session::{ConnectionError, SessionHandle};
use hawser_net::stream::BondStream;
use hawser_session::OpenError;

use crate::following::Following;
use crate::stats::ConnectionStats;

/// A connection to one peer over every link, on which both sides open streams.
///
/// The side that [connects](crate::Endpoint::connect) has one, and the side that listens gets the
/// other one from [`BondListener::accept_connection`](crate::BondListener::accept_connection). A
/// clone is another handle to the same connection.
///
/// A connection lives for as long as any of its links works, and for
/// [`survive`](crate::SessionConfig::survive) without a link. [`Connection::closed`] waits for its
/// end and returns the reason. Streams end with their connection: keep it.
///
/// Dropping the last handle ends the connection in order, in the background: written data is still
/// sent, unless the program ends first. [`Connection::close`] with [`Connection::closed`] waits for
/// that.
#[derive(Clone, Debug)]
pub struct Connection {
    shared: Arc<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    session: SessionHandle,
    peer: PublicKey,
    /// Keeps the session on the links; the listening side needs none.
    keeper: Option<Keeper>,
}

/// Keeps a session of the connecting side on this machine's links.
#[derive(Debug)]
struct Keeper {
    client: Client,
    _following: Arc<Following>,
}

impl Connection {
    /// Returns the connecting side's end of a connection.
    pub(crate) fn of_client(
        session: SessionHandle,
        peer: PublicKey,
        client: Client,
        following: Arc<Following>,
    ) -> Self {
        let keeper = Keeper {
            client,
            _following: following,
        };
        Self::new(session, peer, Some(keeper))
    }

    /// Returns the listening side's end of a connection.
    pub(crate) fn of_listener(session: SessionHandle, peer: PublicKey) -> Self {
        Self::new(session, peer, None)
    }

    fn new(session: SessionHandle, peer: PublicKey, keeper: Option<Keeper>) -> Self {
        Self {
            shared: Arc::new(ConnectionState {
                session,
                peer,
                keeper,
            }),
        }
    }

    /// Returns the key that the peer has proved.
    pub fn peer(&self) -> PublicKey {
        self.shared.peer
    }

    /// Opens a stream. The peer learns of it at once, with the first bytes that are written.
    ///
    /// # Errors
    /// When the peer allows no more streams, or the connection is over.
    pub async fn open(&self) -> Result<BondStream, OpenError> {
        self.open_with(Bytes::new()).await
    }

    /// Opens a stream and tells the peer its purpose, [`BondStream::opening`] at the peer. At most
    /// 1024 bytes.
    ///
    /// # Errors
    /// When `opening` is too long, the peer allows no more streams, or the connection is over.
    pub async fn open_with(&self, opening: Bytes) -> Result<BondStream, OpenError> {
        self.shared.session.open(opening)
    }

    /// Waits for the next stream that the peer opens. Cancel safe: a future that is dropped has
    /// taken no stream.
    ///
    /// The peer may have [`max_streams`](crate::SessionConfig::max_streams) open here at once,
    /// including those not yet accepted. On each of these it can send no more than on any stream
    /// without a reader.
    ///
    /// # Errors
    /// When the connection is over and every arrived stream was returned.
    pub async fn accept(&self) -> Result<BondStream, ConnectionError> {
        loop {
            let Some(mut stream) = self.shared.session.accept().await else {
                return Err(self.shared.session.ended().await);
            };
            let accepted = stream.accept(Bytes::new());
            // Bytes that arrived before the end can be read, though none can be sent any more.
            if accepted.is_ok() || self.close_reason().is_some() && stream.reset_code().is_none() {
                return Ok(stream);
            }
        }
    }

    /// Tells whether the peer takes datagrams.
    pub fn takes_datagrams(&self) -> bool {
        self.shared.session.takes_datagrams() == Some(true)
    }

    /// Returns the state of paths, channels and streams at this moment.
    pub fn stats(&self) -> ConnectionStats {
        let snapshot = self.shared.session.snapshot(MAX_STREAMS_SHOWN);
        let addresses = self.shared.session.addresses(&snapshot);
        let keeper = self.shared.keeper.as_ref();
        let links: Vec<LinkStatus> = keeper.map_or_else(Vec::new, |it| it.client.snapshot(0).links);
        ConnectionStats::new(&snapshot, &addresses, &links)
    }

    /// Begins to end the connection: no more streams can be opened, written data still arrives, and
    /// then the peer gets `code` and the first 512 bytes of `reason`. Data that the peer writes
    /// from then on is lost: applications end their streams first. Returns at once;
    /// [`Connection::closed`] waits. A second call has no effect.
    pub fn close(&self, code: u32, reason: &str) {
        self.shared.session.close(code, reason);
    }

    /// Ends the connection at once. The peer is not told, and data in flight is lost.
    pub fn abort(&self) {
        self.shared.session.abort();
    }

    /// Waits until the connection is over; returns the reason. Cancel safe.
    pub async fn closed(&self) -> ConnectionError {
        let reason = self.shared.session.ended().await;
        let in_order = matches!(
            reason,
            ConnectionError::LocallyClosed | ConnectionError::ClosedByPeer { .. }
        );
        if in_order {
            // Time to send the last acknowledgements: the program may end when this returns.
            tokio::time::sleep(LAST_WORDS).await;
        }
        reason
    }

    /// Returns the reason why the connection is over; `None` while it is not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        self.shared.session.end()
    }
}

impl Drop for ConnectionState {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (session, keeper) = (self.session.clone(), self.keeper.take());
        runtime.spawn(async move {
            session.close(0, "");
            if tokio::time::timeout(DROP_PATIENCE, session.ended())
                .await
                .is_err()
            {
                session.abort();
            }
            tokio::time::sleep(LAST_WORDS).await;
            drop(keeper);
        });
    }
}

const DROP_PATIENCE: Duration = Duration::from_secs(30);
const LAST_WORDS: Duration = Duration::from_millis(20);
const MAX_STREAMS_SHOWN: usize = 1024;
