//! The client side: a session to one gateway, kept alive over every link.

mod accepted;
mod address_choice;
mod association;
mod candidates;
mod config;
mod first;
mod join;
mod join_error;
mod join_port;
mod keeper;
mod link_statuses;
mod reach;
mod relay;
mod rest;
mod rules;
mod scheduler;
mod sessions;
mod shared;
mod shared_port;
mod status;
mod transport;
mod unreachable;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use hawser_session::{OpenError, SessionSnapshot};
use hawser_types::{StreamGroup, StreamId};
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::congestion::Congestion;
use crate::driver::Driver;
use crate::session::SessionHandle;
use crate::spans;
use crate::stream::BondStream;
pub use config::ClientConfig;
pub use first::FirstConnection;
use hawser_keys::host_port::HostPort;
use hawser_link::links::Link;
pub use join_port::JoinPort;
pub use link_statuses::LinkStatus;
pub use relay::Relay;
use sessions::{end_in_order, has_answered};
use shared::{ClientState, State};
pub use shared_port::SharedPort;

/// A client of one gateway. It connects, and reconnects when the session is lost, until it is
/// closed or dropped.
///
/// A gateway that is about to be replaced asks its clients to begin another session. New streams
/// open there as soon as the client is admitted; open streams end in the earlier session.
#[derive(Debug)]
pub struct Client {
    shared: Arc<ClientState>,
    task: tokio::task::JoinHandle<()>,
}

/// A client at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSnapshot {
    /// The running session, if any.
    pub session: Option<SessionSnapshot>,
    /// Why no session runs.
    pub problem: Option<String>,
    /// The links in use.
    pub links: Vec<LinkStatus>,
}

/// Reason why a stream could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// No session came about in time.
    #[error("the gateway can't be reached: {0}")]
    Unreachable(String),
    /// The gateway answered, and does not admit this client.
    #[error("the gateway refuses this client's key: not enrolled, or revoked")]
    NotAdmitted,
    /// The session refuses the stream.
    #[error(transparent)]
    Refused(#[from] OpenError),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Client {
    /// Starts connecting. `links` follows the machine's links, as
    /// [`LinkMonitor`](hawser_link::links::LinkMonitor) gives them.
    pub fn start(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        let enrolling = config.invite.is_some();
        Self::begin(config, links, (enrolling, false), None)
    }

    /// As [`Client::start_enrolled`], with a session that begins on an existing connection. Further
    /// channels go to the configured addresses, and to the connection's remote address if no
    /// configured address answers within a moment.
    pub fn start_on(
        config: ClientConfig,
        links: watch::Receiver<Arc<Vec<Link>>>,
        first: FirstConnection,
    ) -> Self {
        Self::begin(config, links, (false, false), Some(first))
    }

    /// As [`Client::start`], for one session: when a session ends in which the gateway has
    /// answered, the client closes and begins no other session.
    pub fn start_once(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        let enrolling = config.invite.is_some();
        Self::begin(config, links, (enrolling, true), None)
    }

    /// As [`Client::start`] for a client that has enrolled before: it uses the invite only when the
    /// gateway refuses the client's own key, as after a revocation.
    pub fn start_enrolled(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        Self::begin(config, links, (false, false), None)
    }

    fn begin(
        config: ClientConfig,
        links: watch::Receiver<Arc<Vec<Link>>>,
        (enrolling, once): (bool, bool),
        first: Option<FirstConnection>,
    ) -> Self {
        let congestion = Congestion::choose(config.congestion.clone());
        let port = first.as_ref().map(|first| Arc::clone(&first.port));
        let span = spans::far_end(config.addresses.first(), &config.gateway);
        let shared = ClientState::new(config, links, congestion, port, (enrolling, once));
        let shared = Arc::new(shared);
        let running = sessions::run(Arc::clone(&shared), first);
        let task = tokio::spawn(running.instrument(span));
        Self { shared, task }
    }

    /// The live sessions: the current one, and earlier ones that still serve streams.
    pub fn sessions(&self) -> Vec<SessionHandle> {
        let sessions = self.shared.sessions().into_iter();
        sessions.map(SessionHandle::new).collect()
    }

    /// Opens a stream; its first chunk carries `metadata`. Waits up to 10 seconds for a session.
    pub async fn open(&self, metadata: Bytes) -> Result<BondStream, OpenStreamError> {
        self.open_for(StreamGroup::OWN, metadata).await
    }

    /// As [`Client::open`], on behalf of a group: groups have equal shares of the data that either
    /// end sends.
    pub async fn open_for(
        &self,
        group: StreamGroup,
        metadata: Bytes,
    ) -> Result<BondStream, OpenStreamError> {
        loop {
            let driver = self.ready(OPEN_TIMEOUT).await?;
            match driver.open_stream(group, metadata.clone()) {
                Ok(id) => return Ok(BondStream::new(driver, id, Bytes::new())),
                // Another session has just replaced this one.
                Err(_) if driver.is_superseded() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// True if the gateway takes datagrams; `None` while this is unknown.
    pub fn takes_datagrams(&self) -> Option<bool> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.with(|session, _| session.takes_datagrams()),
            _ => None,
        }
    }

    /// True if the gateway has announced that it takes associations, which implies that its version
    /// knows calls.
    pub fn knows_calls(&self) -> bool {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.datagram_port().is_some(),
            _ => false,
        }
    }

    /// Waits until a session runs, at most for `patience`.
    pub async fn connected(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.ready(patience).await.map(drop)
    }

    /// Waits until the gateway has stored this client's key, at most for `patience`.
    pub async fn enrolled(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.heard(patience, Driver::is_enrolled).await
    }

    /// Waits until the gateway has shown that it admits this client, at most for `patience`. A
    /// session begins earlier: the client's side of the handshake is over first.
    pub async fn admitted(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.heard(patience, has_answered).await
    }

    /// True if a session runs. Whether the gateway admits this client may be unknown yet.
    pub fn is_connected(&self) -> bool {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.closed().is_none(),
            _ => false,
        }
    }

    /// True if a session runs, and the gateway has shown that it admits this client.
    pub fn is_admitted(&self) -> bool {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.closed().is_none() && has_answered(driver),
            _ => false,
        }
    }

    /// Waits until a session satisfies `condition`, which is tested after each change of a session.
    async fn heard(
        &self,
        patience: Duration,
        condition: impl Fn(&Driver) -> bool,
    ) -> Result<(), OpenStreamError> {
        let mut refusals = self.shared.refusals.subscribe();
        let asking = async {
            loop {
                // A refused session may be over before this loop sees it.
                let driver = tokio::select! {
                    driver = self.ready(Duration::MAX) => driver?,
                    Ok(()) = refusals.changed() => return Err(OpenStreamError::NotAdmitted),
                };
                let mut changes = driver.changes();
                while driver.closed().is_none() && !driver.is_superseded() {
                    if condition(&driver) {
                        return Ok(());
                    }
                    if changes.changed().await.is_err() {
                        break;
                    }
                }
                if driver.was_refused() {
                    return Err(OpenStreamError::NotAdmitted);
                }
                // Lost before the answer, or superseded: the next session asks again.
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(patience, asking).await {
            Ok(result) => result,
            Err(_) => Err(OpenStreamError::Unreachable(self.shared.problem())),
        }
    }

    /// Returns the next stream that the gateway opens, also in superseded sessions; `None` once the
    /// client is closed.
    pub async fn accept(&self) -> Option<BondStream> {
        loop {
            let mut current = self.shared.current.subscribe();
            if self.ready(Duration::MAX).await.is_err() {
                return None;
            }
            let sessions = self.shared.sessions();
            let incoming = std::future::poll_fn(|cx| poll_incoming(&sessions, cx));
            tokio::select! {
                (driver, id) = incoming => {
                    let opening = driver.with(|session, _| session.peer_metadata(id));
                    return Some(BondStream::new(driver, id, opening.unwrap_or_default()));
                }
                _ = current.changed() => {}
            }
        }
    }

    /// A snapshot of the client, with at most `max_streams` of its streams.
    pub fn snapshot(&self, max_streams: usize) -> ClientSnapshot {
        let state = self.shared.current.borrow().clone();
        let session = match &state {
            State::Running(driver) => Some(driver.snapshot(max_streams)),
            _ => None,
        };
        let problem = match state {
            State::Connecting(problem) => problem.map(|text| text.to_string()),
            _ => None,
        };
        let statuses = self.shared.statuses.lock().by_link().clone();
        let links = statuses.into_values().collect();
        ClientSnapshot {
            session,
            problem,
            links,
        }
    }

    /// Addresses where the gateway has proved its key, the latest first, and those that were
    /// configured as [`reached`](ClientConfig::reached).
    pub fn reached(&self) -> watch::Receiver<Vec<SocketAddr>> {
        self.shared.reached.subscribe()
    }

    /// Sets the gateway's addresses. The session goes on: each link gets connections to the new
    /// addresses, and connections to the old addresses end once the new ones are established.
    pub fn set_addresses(&self, addresses: Vec<HostPort>) {
        self.shared.set_addresses(addresses);
    }

    /// Sends an unsealed datagram from the UDP sockets of the association, by every link that may
    /// lead to `remote`. Sends nothing while there are no such sockets.
    pub fn send_unsealed(&self, remote: SocketAddr, bytes: &[u8]) {
        let endpoint = self.shared.endpoint.lock().upgrade();
        if let Some(endpoint) = endpoint {
            endpoint.send_unsealed(remote, bytes);
        }
    }

    /// The gateway's UDP port at each address that channels lead to.
    pub fn datagram_addresses(&self) -> Vec<SocketAddr> {
        let State::Running(driver) = &*self.shared.current.borrow() else {
            return Vec::new();
        };
        let Some(port) = driver.datagram_port() else {
            return Vec::new();
        };
        let statuses = self.shared.statuses.lock();
        let remotes = statuses
            .by_link()
            .values()
            .filter_map(|status| status.remote);
        let at = |remote: SocketAddr| SocketAddr::new(remote.ip().to_canonical(), port);
        let addresses: BTreeSet<SocketAddr> = remotes.map(at).collect();
        addresses.into_iter().collect()
    }

    /// True if the gateway is on this machine, so that the loopback interface leads to it.
    pub fn is_local(&self) -> bool {
        self.shared.config.is_local()
    }

    /// The applications of these streams of the running session, where [`BondStream::set_label`]
    /// was called and the label knows the application by now.
    pub fn labels(&self, streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.labels(streams),
            _ => BTreeMap::new(),
        }
    }

    /// Ends the current and earlier sessions in order: written data still arrives, within
    /// `patience`.
    pub async fn close(&self, patience: Duration) {
        let state = self.shared.current.send_replace(State::Closed);
        let mut sessions = self.shared.left();
        if let State::Running(driver) = state {
            sessions.push(driver);
        }
        let ending = sessions.iter().map(|driver| end_in_order(driver, patience));
        join_all(ending).await;
    }

    async fn ready(&self, patience: Duration) -> Result<Driver, OpenStreamError> {
        let mut current = self.shared.current.subscribe();
        let settled = current.wait_for(|state| match state {
            State::Running(driver) => driver.closed().is_none(),
            State::Closed => true,
            State::Connecting(_) => false,
        });
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Running(driver) => Ok(driver.clone()),
                _ => Err(OpenStreamError::Closed),
            },
            Ok(Err(_)) => Err(OpenStreamError::Closed),
            Err(_) => Err(OpenStreamError::Unreachable(self.shared.problem())),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Polls for the next stream that the gateway has opened in one of these sessions. Stays pending if
/// all are over.
fn poll_incoming(sessions: &[Driver], cx: &mut Context<'_>) -> Poll<(Driver, StreamId)> {
    for driver in sessions {
        if let Poll::Ready(Some(id)) = driver.poll_incoming(cx) {
            return Poll::Ready((driver.clone(), id));
        }
    }
    Poll::Pending
}

/// Time for which opening a stream waits for a session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
