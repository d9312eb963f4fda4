//! The gateway side: accepts sessions and joins, and hands out the streams that clients open.

mod accounts;
mod admit;
mod associate;
mod association;
mod config;
mod first_words;
mod further;
mod further_links;
mod going;
mod half_open;
mod joining;
mod limits;
mod memory;
mod port;
mod port_links;
mod probe;
mod session;
mod shared;
mod shares;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use hawser_session::recorder::Recorder;
use hawser_session::{OpenError, SessionSnapshot};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, SessionId, StreamGroup};
use hawser_wire::JoinPrelude;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::association::{Sightings, Token};
use crate::congestion::Congestion;
use crate::driver::{CLOSE_REFUSED, Driver};
use crate::stream::BondStream;
use crate::takeover::{self, Datagrams, Join};
pub use accounts::{Accounts, Holder};
pub use admit::accept_each;
pub use config::{Admission, AdmitAll, GatewayConfig};
pub use first_words::{Whose, judge};
pub(crate) use half_open::{HalfOpen, Origin};
use hawser_keys::identity::PublicKey;
use hawser_link::links::{Link, OwnAddresses};
use hawser_seal::{TlsError, TlsServer};
pub use limits::AcceptLimits;
use port_links::OwnSockets;
pub use shared::{Ends, GatewayCounters, Incoming, IncomingSession};
use shared::{Entry, GatewayState, HandOver, REFUSED_PATIENCE, Senders};

/// Accepts clients. Dropping it ends all sessions.
pub struct Gateway {
    shared: Arc<GatewayState>,
    incoming: tokio::sync::Mutex<mpsc::Receiver<Incoming>>,
    arrivals: tokio::sync::Mutex<mpsc::Receiver<IncomingSession>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    /// The tasks that open the port, and keep it open on the links.
    listening: Vec<tokio::task::JoinHandle<()>>,
    /// The unspecified addresses (`0.0.0.0`, `[::]`) among those that the gateway listens on.
    everywhere: Vec<SocketAddr>,
    /// All addresses that the gateway listens on.
    addresses: Vec<SocketAddr>,
    own_sockets: OwnSockets,
}

/// Reason why a gateway can't open a stream to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenToClientError {
    /// No session of the client here has a channel now.
    #[error("no client with the key {0} is connected")]
    NotConnected(PublicKey),
    /// The session refuses the stream.
    #[error(transparent)]
    Refused(#[from] OpenError),
}

/// One session of a gateway at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewaySession {
    /// The session's id, as logs show it.
    pub id: SessionId,
    /// The client.
    pub peer: PublicKey,
    /// The address that the session began from.
    pub remote: SocketAddr,
    /// This machine's address of each channel, on each of the channel's links: an association uses
    /// several links.
    pub addresses: BTreeMap<(ChannelId, LinkIndex), IpAddr>,
    /// The session.
    pub session: SessionSnapshot,
}

impl Gateway {
    /// Starts accepting on every listener.
    pub fn start(
        config: GatewayConfig,
        listeners: Vec<TcpListener>,
        admission: Arc<dyn Admission>,
    ) -> Result<Self, TlsError> {
        let judge = Arc::clone(&admission);
        let tls = TlsServer::new(&config.identity, Arc::new(move |key| judge.admits(key)))?;
        let (sender, receiver) = mpsc::channel(INCOMING_QUEUE);
        let congestion = Congestion::choose(config.congestion.clone());
        let (arrivals, arrived) = mpsc::channel(ARRIVALS_QUEUE);
        let senders = Senders {
            incoming: sender,
            arrivals,
        };
        let shared = Arc::new(GatewayState::new(
            config, congestion, admission, tls, senders,
        ));
        let addresses = listeners.iter().filter_map(|it| it.local_addr().ok());
        let addresses: Vec<_> = addresses.collect();
        let everywhere = listeners.iter().filter_map(port::everywhere).collect();
        let listening = listeners
            .into_iter()
            .map(|listener| tokio::spawn(admit::listen(Arc::clone(&shared), listener)));
        let listening = listening.collect();
        let tasks = vec![tokio::spawn(memory::keep(Arc::clone(&shared)))];
        Ok(Self {
            shared,
            incoming: tokio::sync::Mutex::new(receiver),
            arrivals: tokio::sync::Mutex::new(arrived),
            tasks,
            listening,
            everywhere,
            own_sockets: OwnSockets::needed_at(&addresses),
            addresses,
        })
    }

    /// Takes associations at the UDP port of the same number, and announces the port to clients. If
    /// the port can't be opened, everything goes over TCP. To be called before
    /// [`Self::with_links`], which finds the addresses of a gateway that listens on all of them.
    #[must_use]
    pub fn with_associations(self) -> Self {
        let predecessor = self.shared.config.predecessor.clone();
        match association::Associations::open(&self.addresses, self.own_sockets, predecessor) {
            Ok(associations) => drop(self.shared.associations.set(associations)),
            Err(error) => tracing::warn!(%error, "no UDP port: everything goes over TCP"),
        }
        self
    }

    /// From now on, sends answers by the link on which the client's packets arrived, if the gateway
    /// listens on every address and the kernel permits that (Linux 5.7); else by the best route.
    /// `links` follows the machine's links, as [`LinkMonitor`](hawser_link::links::LinkMonitor)
    /// gives them.
    #[must_use]
    pub fn with_links(mut self, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        if !self.everywhere.is_empty() {
            let follow = associate::follow(Arc::clone(&self.shared), links.clone());
            self.listening.push(tokio::spawn(follow));
            let addresses = std::mem::take(&mut self.everywhere);
            let at = (addresses, self.own_sockets);
            let follow = port::follow(Arc::clone(&self.shared), at, links);
            self.listening.push(tokio::spawn(follow));
        }
        self
    }

    /// Begins connections to clients that accept them, from those of the links `names` over which
    /// no channel of the session arrived. The connections go to the addresses that the clients came
    /// from, at the port that each client announces. `links` follows the machine's links, `own` its
    /// addresses, to which no connection goes.
    #[must_use]
    pub fn with_further_links(
        self,
        names: Vec<String>,
        links: watch::Receiver<Arc<Vec<Link>>>,
        own: OwnAddresses,
    ) -> Self {
        let further = further_links::Further::new(names, links, own);
        drop(self.shared.further.set(further));
        self
    }

    /// Takes a caller's connection that another gateway has passed on. According to that gateway,
    /// `caller` is the caller's key. `remote` stands for the caller's address in the log.
    pub fn take(&self, stream: TcpStream, remote: SocketAddr, caller: PublicKey) {
        let origin = Origin::Relayed(caller);
        admit::enter(&self.shared, stream, remote, origin);
    }

    /// True if the session that a connection joins is here.
    pub fn has_session_of(&self, join: &Join) -> bool {
        let session = JoinPrelude::decode(&join.said).map(|prelude| prelude.session);
        session.is_some_and(|session| self.shared.sessions.lock().contains_key(&session))
    }

    /// Takes a connection that came to the successor of this process, and that joins a session.
    ///
    /// # Errors
    /// When `connection` is not a TCP connection, or does not begin with a join.
    pub fn take_join(&self, connection: OwnedFd, join: &Join) -> io::Result<()> {
        let stream = takeover::connection(connection)?;
        let prelude = JoinPrelude::decode(&join.said).ok_or(io::ErrorKind::InvalidData)?;
        admit::enter_join(&self.shared, stream, prelude)
    }

    /// Takes datagrams that came to the successor of this process.
    pub fn take_datagrams(&self, passed: Datagrams) {
        if let Some(associations) = self.shared.associations.get() {
            let Datagrams { local, datagrams } = passed;
            associations.endpoint().handle_datagrams(local, datagrams);
        }
    }

    /// Accepts no more connections: another process has the port. Sessions and accepted connections
    /// go on.
    pub fn stop_listening(&self) {
        self.listening.iter().for_each(|task| task.abort());
    }

    /// Takes a connection from `remote` to a port that the gateway shares with a service of this
    /// machine, if the client's first bytes are this protocol's. Otherwise, or if no bytes arrive
    /// within 200 ms, returns the connection for the service, with nothing read off it. Drops a
    /// connection that ends before any byte arrives.
    pub async fn share(&self, stream: TcpStream, remote: SocketAddr) -> Option<TcpStream> {
        admit::share(&self.shared, stream, remote).await
    }

    /// Sends an unsealed datagram from the UDP port, by every link that may lead to `remote`. Sends
    /// nothing if there is no such port.
    pub fn send_unsealed(&self, remote: SocketAddr, bytes: &[u8]) {
        if let Some(associations) = self.shared.associations.get() {
            associations.endpoint().send_unsealed(remote, bytes);
        }
    }

    /// Waits for datagrams at the UDP port that consist of this token. Returns `None` if there is
    /// no such port, if the token is waited for already, or if too many tokens are.
    pub fn wait_for_token(&self, token: Token) -> Option<Sightings> {
        let associations = self.shared.associations.get()?;
        associations.endpoint().wait_for_token(token)
    }

    /// Waits for the next stream that any client opens. Returns `None` if
    /// [`Gateway::accept_session`] was called first: the gateway then hands out sessions.
    pub async fn accept(&self) -> Option<Incoming> {
        if !self.shared.hands_over(HandOver::Streams) {
            return None;
        }
        self.incoming.lock().await.recv().await
    }

    /// Waits for the next session that a client begins, with its streams. Returns `None` if
    /// [`Gateway::accept`] was called first: the gateway then hands out streams.
    pub async fn accept_session(&self) -> Option<IncomingSession> {
        if !self.shared.hands_over(HandOver::Sessions) {
            return None;
        }
        self.arrivals.lock().await.recv().await
    }

    /// Opens a stream to the client with the key `peer`, in the client's latest session that is
    /// connected; the first chunk carries `metadata`, at most 1024 bytes. The client gets the
    /// stream from [`Client::accept`](crate::client::Client::accept).
    pub fn open(&self, peer: &PublicKey, metadata: Bytes) -> Result<BondStream, OpenToClientError> {
        self.open_for(peer, StreamGroup::OWN, metadata)
    }

    /// As [`Gateway::open`], on behalf of a group: groups have equal shares of the data that either
    /// end sends.
    pub fn open_for(
        &self,
        peer: &PublicKey,
        group: StreamGroup,
        metadata: Bytes,
    ) -> Result<BondStream, OpenToClientError> {
        let latest = self.latest(peer);
        let driver = latest.ok_or(OpenToClientError::NotConnected(*peer))?;
        let id = driver.open_stream(group, metadata)?;
        Ok(BondStream::new(driver, id, Bytes::new()))
    }

    /// True if a stream can be opened to the client with the key `peer`.
    pub fn is_connected(&self, peer: &PublicKey) -> bool {
        self.latest(peer).is_some()
    }

    /// The client's latest session that has a channel now.
    fn latest(&self, peer: &PublicKey) -> Option<Driver> {
        let sessions = self.shared.sessions.lock();
        let of_peer = sessions.values().filter(|entry| entry.peer == *peer);
        let connected =
            of_peer.filter(|entry| !entry.revoked && !entry.driver.channels().is_empty());
        let latest = connected.max_by_key(|entry| entry.begun)?;
        Some(latest.driver.clone())
    }

    /// The number of sessions that have begun so far, and its changes.
    pub fn begun(&self) -> watch::Receiver<u64> {
        self.shared.begun.subscribe()
    }

    /// The budgets of the memory that clients hold beside their data.
    pub fn accounts(&self) -> &Accounts {
        &self.shared.accounts
    }

    /// The memory known to be held for clients and strangers: charges, data that waits or is in
    /// flight, recorders, and associations.
    pub fn charged(&self) -> ByteCount {
        memory::charged(&self.shared)
    }

    /// The addresses that the gateway listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The sessions at this moment, each with at most `max_streams` of its streams.
    pub fn sessions(&self, max_streams: usize) -> Vec<GatewaySession> {
        self.sessions_among(|_| true, max_streams)
    }

    /// As [`Self::sessions`], for sessions that are `wanted`; other sessions cost nothing.
    pub fn sessions_among(
        &self,
        wanted: impl Fn(SessionId) -> bool,
        max_streams: usize,
    ) -> Vec<GatewaySession> {
        let sessions = self.shared.sessions.lock();
        let wanted = sessions.iter().filter(|(id, _)| wanted(**id));
        let handle = |(id, entry): (&SessionId, &Entry)| {
            (*id, entry.peer, entry.ends.remote, entry.driver.clone())
        };
        let handles: Vec<_> = wanted.map(handle).collect();
        // New clients do not wait for the snapshots.
        drop(sessions);
        let snapshot = |(id, peer, remote, driver): (SessionId, _, _, Driver)| {
            let session = driver.snapshot(max_streams);
            GatewaySession {
                id,
                peer,
                remote,
                addresses: driver.addresses(&session.channels),
                session,
            }
        };
        handles.into_iter().map(snapshot).collect()
    }

    /// The number of sessions.
    pub fn session_count(&self) -> usize {
        self.shared.sessions.lock().len()
    }

    /// The ids of the sessions at this moment.
    pub fn session_ids(&self) -> Vec<SessionId> {
        self.shared.sessions.lock().keys().copied().collect()
    }

    /// Reads the recorder of a session; `None` if there is no such session.
    pub fn recorder<R>(
        &self,
        id: SessionId,
        read: impl FnOnce(&Recorder, Instant) -> R,
    ) -> Option<R> {
        let driver = self.shared.sessions.lock().get(&id)?.driver.clone();
        Some(driver.recorder(read))
    }

    /// Counts since the gateway started.
    pub fn counters(&self) -> GatewayCounters {
        self.shared.counters()
    }

    /// Ends the sessions of clients that are not admitted any more.
    pub fn drop_revoked(&self) {
        let admission = &self.shared.admission;
        for entry in self.shared.sessions.lock().values_mut() {
            if !entry.revoked && !admission.admits(&entry.peer) {
                entry.revoked = true;
                let _span = entry.driver.span().enter();
                tracing::info!(peer = %entry.peer, "ending session of revoked client");
                // The client is told, so that it does not wait for its links to come back.
                entry.driver.with(|session, now| {
                    for stream in session.snapshot(now, usize::MAX).streams {
                        session.reset(now, stream.id, 0);
                    }
                });
                end_soon(&entry.driver, CLOSE_REFUSED);
            }
        }
    }

    /// Ends sessions in which no stream has been open for `idle`. Call it periodically: a stream is
    /// noticed when it is handed out, and by each call while it is open.
    pub fn end_idle(&self, idle: Duration) {
        let now = std::time::Instant::now();
        for entry in self.shared.sessions.lock().values_mut() {
            if entry.driver.snapshot(0).stream_count > 0 {
                entry.used = now;
            } else if now.duration_since(entry.used) >= idle && entry.driver.closed().is_none() {
                let span = entry.driver.span();
                span.in_scope(|| tracing::debug!("closing idle session"));
                end_soon(&entry.driver, 0);
            }
        }
    }

    /// Prepares for the replacement of this gateway: asks the client of every session, also of
    /// those that begin from now on, to connect anew for another session. The process that then
    /// accepts connections at these addresses gets the new session. Everything else goes on: open
    /// streams, and those that clients still open here, are served. A session without an open
    /// stream for some seconds is ended in order, as a client of an older version does not leave
    /// it by itself.
    ///
    /// [`Gateway::session_count`] returns the number of sessions left.
    pub fn go_away(&self) {
        self.shared.going_away.send_replace(true);
    }

    /// Stops accepting, and ends every session in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        let drivers = self.stop();
        drivers.iter().for_each(|driver| driver.close(0));
        let _ = tokio::time::timeout(patience, async {
            for driver in &drivers {
                session::ended(driver).await;
            }
        })
        .await;
    }

    /// Admits no more clients; returns the present sessions.
    fn stop(&self) -> Vec<Driver> {
        self.stop_listening();
        self.tasks.iter().for_each(|task| task.abort());
        let sessions = self.shared.sessions.lock();
        // A client may be in the middle of a handshake.
        self.shared.closed.store(true, Ordering::Relaxed);
        let drivers = sessions.values().map(|entry| entry.driver.clone());
        drivers.collect()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop().iter().for_each(Driver::abort);
    }
}

/// Ends a session, and leaves its client time to hear of it.
fn end_soon(driver: &Driver, code: u32) {
    driver.close(code);
    let driver = driver.clone();
    tokio::spawn(async move {
        tokio::time::sleep(REFUSED_PATIENCE).await;
        driver.abort();
    });
}

/// Most streams that wait to be served.
const INCOMING_QUEUE: usize = 256;
/// Most sessions in the queue to the application. A session stays in the queue after its end, since
/// received data can still be read. Further sessions wait in their own tasks, which end with them.
const ARRIVALS_QUEUE: usize = 16;

#[cfg(test)]
mod tests;
