//! The state of each host that is known by name: its addresses, and the sessions with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_net::client::Client;
use hawser_net::gateway::Gateway;
use hawser_net::spans;
use hawser_types::HostNameAt;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::book::{Book, sip_uri};
use super::super::offers::Offers;
use super::super::punching::Punching;
use crate::bonded::Bonded;
use crate::registration::Ask;
use crate::transport::DialError;

#[cfg(test)]
mod tests;

pub(super) struct NamedPeersState {
    pub(super) book: Book,
    pub(super) door: Arc<Gateway>,
    pub(super) offers: Arc<Offers>,
    /// Notified when a session begins, a host's addresses arrive or a call ends.
    pub(super) changed: watch::Sender<()>,
    starts: Starts,
    asks: mpsc::Sender<Ask>,
    peers: Mutex<BTreeMap<HostNameAt, Peer>>,
}

/// Begins to connect to the host with a key at some addresses, where it can.
pub type StartClient = dyn Fn(PublicKey, Vec<HostPort>) -> Option<Arc<Client>> + Send + Sync;

/// Begins to connect through a gateway to the host with a key, where it can.
pub type StartRelayed = dyn Fn(PublicKey) -> Option<Arc<Client>> + Send + Sync;

/// Functions that make clients, which connect to other hosts.
pub(super) struct Starts {
    pub(super) direct: Box<StartClient>,
    /// Makes a client that connects through a gateway; `None` without a gateway.
    pub(super) relayed: Option<Box<StartRelayed>>,
    /// Finds UDP paths beside a relayed session.
    pub(super) punching: Option<Arc<Punching>>,
}

/// How a client reaches the other host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Route {
    /// Over the links.
    Direct,
    /// Through a gateway.
    Relayed,
}

/// A session that streams may go over.
pub(super) enum PeerSession {
    /// A session that this host has begun.
    Client(Arc<Client>),
    /// A session that the other host has begun.
    Door(Arc<Gateway>, PublicKey),
}

/// The state of one host.
#[derive(Default)]
struct Peer {
    /// The addresses that the host named last.
    addresses: Vec<HostPort>,
    /// Sessions with the host; a direct one sorts before a relayed one.
    sessions: BTreeMap<Route, Running>,
    /// Connections that wait for a session.
    waiting: usize,
    /// Reason and time of the last failed call.
    problem: Option<(String, Instant)>,
    /// Consecutive failed calls.
    failures: u32,
}

/// A client that connects to the other host.
struct Running {
    key: PublicKey,
    client: Arc<Client>,
    /// When the client was begun, or last received addresses.
    begun: Instant,
    used: Instant,
    /// Tasks that serve the other host's streams and tell it UDP addresses.
    tasks: Vec<AbortHandle>,
}

impl NamedPeersState {
    pub(super) fn new(
        book: Book,
        door: Arc<Gateway>,
        offers: Offers,
        starts: Starts,
        asks: mpsc::Sender<Ask>,
    ) -> Self {
        Self {
            book,
            door,
            offers: Arc::new(offers),
            changed: watch::Sender::default(),
            starts,
            asks,
            peers: Mutex::default(),
        }
    }

    /// Returns a running session with the host.
    pub(super) fn way(&self, name: &HostNameAt) -> Option<PeerSession> {
        let key = self.book.store().peer(name)?.key?;
        let clients = self.clients_of(name);
        if let Some(client) = clients.iter().find(|client| client.is_admitted()) {
            return Some(PeerSession::Client(Arc::clone(client)));
        }
        if self.door.is_connected(&key) {
            return Some(PeerSession::Door(Arc::clone(&self.door), key));
        }
        // Only opening a stream shows whether the other host admits this host.
        let mut clients = clients.into_iter();
        clients
            .find(|it| it.is_connected())
            .map(PeerSession::Client)
    }

    /// Returns a session for a stream that is about to be opened. This counts as use of the host's
    /// sessions, however short the stream is.
    pub(super) fn way_for_stream(&self, name: &HostNameAt) -> Option<PeerSession> {
        if let Some(peer) = self.peers.lock().get_mut(name) {
            let now = Instant::now();
            peer.sessions.values_mut().for_each(|it| it.used = now);
        }
        self.way(name)
    }

    /// Returns the clients of the host's door, connected or not, the preferred one first.
    pub(super) fn clients_of(&self, name: &HostNameAt) -> Vec<Arc<Client>> {
        let peers = self.peers.lock();
        let running = peers
            .get(name)
            .into_iter()
            .flat_map(|it| it.sessions.values());
        running.map(|it| Arc::clone(&it.client)).collect()
    }

    /// Looks for the host on behalf of a connection, which counts as waiting until the returned
    /// value is dropped.
    ///
    /// # Errors
    /// If the last search failed a moment ago.
    pub(super) fn seek(self: &Arc<Self>, name: &HostNameAt) -> Result<Waiting, DialError> {
        let is_first;
        {
            let mut peers = self.peers.lock();
            let peer = peers.entry(name.clone()).or_default();
            let is_fresh = |(_, at): &(String, Instant)| at.elapsed() < KEEP_PROBLEM;
            if peer.problem.as_ref().is_some_and(is_fresh) {
                return Err(DialError::HostUnreachable);
            }
            peer.problem = None;
            peer.waiting += 1;
            is_first = peer.waiting == 1;
        }
        let waiting = Waiting {
            shared: Arc::clone(self),
            name: name.clone(),
        };
        // The host may still be at its last addresses; the directory is asked as well.
        self.start_client(name);
        if let Some(uri) = sip_uri(name).filter(|_| is_first) {
            // A call without a session is useless: the other host may have restarted.
            let _ = self.asks.try_send(Ask::CallAnew(uri));
        }
        Ok(waiting)
    }

    /// Calls the host, unless a call with it exists.
    pub(super) fn call(&self, name: &HostNameAt) {
        if let Some(uri) = sip_uri(name) {
            // If the queue is full, the call is requested again later.
            let _ = self.asks.try_send(Ask::Call(uri));
        }
    }

    /// Begins to connect to the host at its known addresses, unless that was begun already.
    pub(super) fn start_client(self: &Arc<Self>, name: &HostNameAt) {
        let Some(key) = self.book.store().peer(name).and_then(|peer| peer.key) else {
            return;
        };
        let mut peers = self.peers.lock();
        let Some(peer) = peers.get_mut(name) else {
            return;
        };
        if peer.sessions.contains_key(&Route::Direct) || peer.addresses.is_empty() {
            return;
        }
        let start = || (self.starts.direct)(key, peer.addresses.clone());
        let Some(client) = spans::peer(name).in_scope(start) else {
            return;
        };
        let running = self.running(Route::Direct, key, client);
        peer.sessions.insert(Route::Direct, running);
        drop(peers);
        self.changed.send_replace(());
    }

    /// Begins to connect to the host through the gateway, unless that was begun already or is
    /// impossible. Returns whether it has begun now.
    pub(super) fn start_relayed(self: &Arc<Self>, name: &HostNameAt) -> bool {
        let Some(key) = self.book.store().peer(name).and_then(|peer| peer.key) else {
            return false;
        };
        let mut peers = self.peers.lock();
        let Some(peer) = peers.get_mut(name) else {
            return false;
        };
        let Some(start) = &self.starts.relayed else {
            return false;
        };
        if peer.sessions.contains_key(&Route::Relayed) {
            return false;
        }
        let Some(client) = spans::peer(name).in_scope(|| start(key)) else {
            return false;
        };
        let running = self.running(Route::Relayed, key, client);
        peer.sessions.insert(Route::Relayed, running);
        drop(peers);
        self.changed.send_replace(());
        true
    }

    fn running(&self, route: Route, key: PublicKey, client: Arc<Client>) -> Running {
        let serving = tokio::spawn(serve(Arc::clone(&self.offers), key, Arc::clone(&client)));
        let punching = self.punching().filter(|_| route == Route::Relayed);
        let punching = punching.map(|it| tokio::spawn(Arc::clone(it).call(Arc::clone(&client))));
        let tasks = [Some(serving), punching].into_iter().flatten();
        Running {
            key,
            client,
            begun: Instant::now(),
            used: Instant::now(),
            tasks: tasks.map(|task| task.abort_handle()).collect(),
        }
    }

    /// Returns the state of hole punching; `None` without a gateway.
    pub(super) fn punching(&self) -> Option<&Arc<Punching>> {
        self.starts.punching.as_ref()
    }

    /// Records that the host can be reached at these addresses now.
    pub(super) fn reached(self: &Arc<Self>, name: &HostNameAt, addresses: Vec<HostPort>) {
        let is_wanted = {
            let mut peers = self.peers.lock();
            let peer = peers.entry(name.clone()).or_default();
            peer.problem = None;
            peer.failures = 0;
            if addresses.is_empty() {
                peer.problem = Some((NO_ADDRESS.to_owned(), Instant::now()));
            } else if let Some(running) = peer.sessions.get_mut(&Route::Direct) {
                running.client.set_addresses(addresses.clone());
                running.begun = Instant::now();
            }
            peer.addresses = addresses;
            // A session through the gateway continues until a direct one exists.
            peer.waiting > 0 || peer.sessions.contains_key(&Route::Relayed)
        };
        if is_wanted {
            self.start_client(name);
        }
        self.changed.send_replace(());
    }

    /// Records the end of the call with the host. Returns the pause before the next call.
    pub(super) fn ended(&self, name: &HostNameAt, problem: Option<String>) -> Duration {
        let pause = {
            let mut peers = self.peers.lock();
            let peer = peers.entry(name.clone()).or_default();
            if let Some(problem) = problem {
                peer.problem = Some((problem, Instant::now()));
            }
            peer.failures = peer.failures.saturating_add(1);
            FIRST_PAUSE * 2_u32.saturating_pow(peer.failures.min(8) - 1)
        };
        self.changed.send_replace(());
        pause.min(LONGEST_PAUSE)
    }

    /// Returns why the host can't be reached, if no session with it is left to try.
    pub(super) fn problem(&self, name: &HostNameAt) -> Option<String> {
        let peers = self.peers.lock();
        let peer = peers.get(name)?;
        let (problem, _) = peer.problem.as_ref().filter(|_| peer.sessions.is_empty())?;
        Some(problem.clone())
    }

    /// Describes what a connection waits for.
    pub(super) fn why_not_yet(&self, name: &HostNameAt) -> String {
        let peers = self.peers.lock();
        let peer = peers.get(name);
        let sessions = peer.map(|peer| &peer.sessions);
        let called = peer.and_then(|peer| peer.problem.as_ref());
        let called = called.map_or("the directory has not answered", |(problem, _)| problem);
        let problem = |route| {
            let running = sessions?.get(&route)?;
            let problem = running.client.snapshot(0).problem;
            Some(problem.unwrap_or_else(|| "the host does not answer".to_owned()))
        };
        let relayed = match (problem(Route::Relayed), &self.starts.relayed) {
            (Some(problem), _) => format!("through the gateway: {problem}"),
            (None, Some(_)) => "through the gateway: not tried yet".to_owned(),
            (None, None) => NEEDS_GATEWAY.to_owned(),
        };
        match problem(Route::Direct) {
            None => format!("{called}; {relayed}"),
            Some(problem) => format!("{problem}; the host does not connect here either; {relayed}"),
        }
    }

    pub(super) fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let peers = self.peers.lock();
        let sessions = peers.values().flat_map(|peer| peer.sessions.values());
        sessions
            .map(|running| (running.key, Arc::clone(&running.client)))
            .collect()
    }

    pub(super) fn take_clients(&self) -> Vec<Arc<Client>> {
        let mut peers = self.peers.lock();
        let sessions = peers
            .values_mut()
            .map(|peer| std::mem::take(&mut peer.sessions));
        sessions
            .flat_map(BTreeMap::into_values)
            .map(Running::stop)
            .collect()
    }

    /// Removes and returns the clients that were idle for that long, and those of hosts that left
    /// the book or have another key in it.
    pub(super) fn take_unused(&self, idle: Duration) -> Vec<Arc<Client>> {
        let mut taken = Vec::new();
        let mut peers = self.peers.lock();
        for (name, peer) in peers.iter_mut() {
            let key = self.book.store().peer(name).and_then(|peer| peer.key);
            let is_relayed = peer.sessions.get(&Route::Relayed);
            let is_relayed = is_relayed.is_some_and(|it| it.client.is_admitted());
            let before = peer.sessions.len();
            for (route, mut running) in std::mem::take(&mut peer.sessions) {
                // A stream holds the client, as `running` and its tasks do.
                let is_used = Arc::strong_count(&running.client) > 1 + running.tasks.len();
                if peer.waiting > 0 || is_used {
                    running.used = Instant::now();
                }
                // The attempt has shown that no direct way leads to the host.
                let is_tried = running.begun.elapsed() > DIRECT_PATIENCE;
                let is_vain = route == Route::Direct && is_relayed && is_tried;
                let is_vain = is_vain && !running.client.is_connected();
                let is_known = key == Some(running.key);
                if is_known && !is_vain && running.used.elapsed() < idle {
                    peer.sessions.insert(route, running);
                } else {
                    taken.push(running.stop());
                }
            }
            let has_ended = before > 0 && peer.sessions.is_empty();
            let is_over = has_ended && !key.is_some_and(|key| self.door.is_connected(&key));
            if let Some(uri) = sip_uri(name).filter(|_| is_over) {
                // If the queue is full, the call ends by itself.
                let _ = self.asks.try_send(Ask::HangUp(uri));
            }
        }
        peers.retain(|name, peer| {
            let is_known = self.book.store().peer(name).is_some();
            if !is_known && let Some(uri) = sip_uri(name) {
                // A host that has left the book must not learn where this host moves.
                let _ = self.asks.try_send(Ask::HangUp(uri));
            }
            is_known || peer.waiting > 0 || !peer.sessions.is_empty()
        });
        taken
    }
}

impl Running {
    fn stop(self) -> Arc<Client> {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.client
    }
}

/// A connection that waits for a session with a host.
pub(super) struct Waiting {
    shared: Arc<NamedPeersState>,
    name: HostNameAt,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(peer) = self.shared.peers.lock().get_mut(&self.name) {
            peer.waiting -= 1;
        }
    }
}

/// Serves the streams that the other host opens in a session that this host has begun.
async fn serve(offers: Arc<Offers>, peer: PublicKey, client: Arc<Client>) {
    while let Some(stream) = client.accept().await {
        let stream = Bonded::of_client(stream, Arc::clone(&client));
        tokio::spawn(Arc::clone(&offers).serve(peer, stream));
    }
}

const NEEDS_GATEWAY: &str = "hosts that are both behind NAT need a gateway that both have enrolled \
     with, started with `hawser serve --meet`";
const NO_ADDRESS: &str = "the host names no address that could be tried";
/// Time for which a direct session is tried beside a session through the gateway.
const DIRECT_PATIENCE: Duration = Duration::from_secs(10);
/// Time for which a failed search is not repeated.
const KEEP_PROBLEM: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
