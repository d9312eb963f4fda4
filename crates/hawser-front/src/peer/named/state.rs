//! What is known of each host that is known by name: where it is, and the session with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hawser_net::client::Client;
use hawser_net::gateway::Gateway;
use hawser_net::host_port::HostPort;
use hawser_net::identity::PublicKey;
use hawser_types::HostNameAt;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::book::{Book, sip_uri};
use super::super::offers::Offers;
use crate::bonded::Bonded;
use crate::registration::Ask;
use crate::transport::DialError;

pub(super) struct Shared {
    pub(super) book: Book,
    pub(super) door: Arc<Gateway>,
    pub(super) offers: Arc<Offers>,
    /// Told when a host was heard of, or a call is over.
    pub(super) changed: watch::Sender<()>,
    start: Box<StartClient>,
    asks: mpsc::Sender<Ask>,
    peers: Mutex<BTreeMap<HostNameAt, Peer>>,
}

/// Begins to connect to the host with a key at some addresses, where it can.
pub type StartClient = dyn Fn(PublicKey, Vec<HostPort>) -> Option<Arc<Client>> + Send + Sync;

/// A session that streams may go over.
pub(super) enum Way {
    /// One that this host has begun.
    Client(Arc<Client>),
    /// One that the other has begun.
    Door(Arc<Gateway>, PublicKey),
}

/// One host.
#[derive(Default)]
struct Peer {
    /// Where it was when it said so last.
    addresses: Vec<HostPort>,
    session: Option<Running>,
    /// Connections that wait for a session.
    waiting: usize,
    /// Why the last call came to nothing, and when.
    problem: Option<(String, Instant)>,
    /// Calls in a row that came to nothing.
    failures: u32,
}

/// A client of the other host's door.
struct Running {
    key: PublicKey,
    client: Arc<Client>,
    used: Instant,
    /// Serves what the other host opens in it.
    serving: AbortHandle,
}

impl Shared {
    pub(super) fn new(
        book: Book,
        door: Arc<Gateway>,
        offers: Offers,
        start: Box<StartClient>,
        asks: mpsc::Sender<Ask>,
    ) -> Self {
        Self {
            book,
            door,
            offers: Arc::new(offers),
            changed: watch::Sender::default(),
            start,
            asks,
            peers: Mutex::default(),
        }
    }

    /// A session with the host that runs now.
    pub(super) fn way(&self, name: &HostNameAt) -> Option<Way> {
        let key = self.book.store().peer(name)?.key?;
        let client = self.client(name);
        if let Some(client) = client.as_ref().filter(|client| client.is_admitted()) {
            return Some(Way::Client(Arc::clone(client)));
        }
        if self.door.is_connected(&key) {
            return Some(Way::Door(Arc::clone(&self.door), key));
        }
        // Whether it lets this host in shows when a stream is opened.
        client.filter(|it| it.is_connected()).map(Way::Client)
    }

    /// The client of its door, connected or not.
    pub(super) fn client(&self, name: &HostNameAt) -> Option<Arc<Client>> {
        let mut peers = self.lock();
        let running = peers.get_mut(name)?.session.as_mut()?;
        running.used = Instant::now();
        Some(Arc::clone(&running.client))
    }

    /// Looks for the host on behalf of a connection, which counts until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// When that came to nothing a moment ago.
    pub(super) fn seek(self: &Arc<Self>, name: &HostNameAt) -> Result<Waiting, DialError> {
        let is_first;
        {
            let mut peers = self.lock();
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
        // Where it was known to be it may be still; the directory is asked besides.
        self.start_client(name);
        if let Some(uri) = sip_uri(name).filter(|_| is_first) {
            // A call without a session helps nobody: the other host may have started anew.
            let _ = self.asks.try_send(Ask::CallAnew(uri));
        }
        Ok(waiting)
    }

    /// Calls the host, unless there is a call.
    pub(super) fn call(&self, name: &HostNameAt) {
        if let Some(uri) = sip_uri(name) {
            // Where as many are waiting, it is asked for again.
            let _ = self.asks.try_send(Ask::Call(uri));
        }
    }

    /// Begins to connect to the host where it is known to be, unless that was begun.
    pub(super) fn start_client(self: &Arc<Self>, name: &HostNameAt) {
        let Some(key) = self.book.store().peer(name).and_then(|peer| peer.key) else {
            return;
        };
        let mut peers = self.lock();
        let Some(peer) = peers.get_mut(name) else {
            return;
        };
        if peer.session.is_some() || peer.addresses.is_empty() {
            return;
        }
        let Some(client) = (self.start)(key, peer.addresses.clone()) else {
            return;
        };
        let serving = tokio::spawn(serve(Arc::clone(&self.offers), key, Arc::clone(&client)));
        peer.session = Some(Running {
            key,
            client,
            used: Instant::now(),
            serving: serving.abort_handle(),
        });
        drop(peers);
        self.changed.send_replace(());
    }

    /// The host can be reached at these addresses now.
    pub(super) fn reached(self: &Arc<Self>, name: &HostNameAt, addresses: Vec<HostPort>) {
        let is_wanted = {
            let mut peers = self.lock();
            let peer = peers.entry(name.clone()).or_default();
            peer.problem = None;
            peer.failures = 0;
            if addresses.is_empty() {
                peer.problem = Some((NO_ADDRESS.to_owned(), Instant::now()));
            } else if let Some(running) = &peer.session {
                running.client.set_addresses(addresses.clone());
            }
            peer.addresses = addresses;
            peer.waiting > 0
        };
        if is_wanted {
            self.start_client(name);
        }
        self.changed.send_replace(());
    }

    /// The call with the host is over. Returns after what time to call again, if that is wanted.
    pub(super) fn ended(&self, name: &HostNameAt, problem: Option<String>) -> Duration {
        let pause = {
            let mut peers = self.lock();
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

    /// Why the host can't be reached, where nothing is left to hope for.
    pub(super) fn problem(&self, name: &HostNameAt) -> Option<String> {
        let peers = self.lock();
        let peer = peers.get(name)?;
        let (problem, _) = peer.problem.as_ref().filter(|_| peer.session.is_none())?;
        Some(problem.clone())
    }

    /// What a connection waits for.
    pub(super) fn why_not_yet(&self, name: &HostNameAt) -> String {
        let peers = self.lock();
        let peer = peers.get(name);
        let session = peer.and_then(|peer| peer.session.as_ref());
        match session {
            None => "the directory has not answered".to_owned(),
            Some(running) => {
                let problem = running.client.snapshot(0).problem;
                let problem = problem.unwrap_or_else(|| "it does not answer".to_owned());
                format!(
                    "{problem}; it does not come either: where both hosts are behind NAT, neither \
                     reaches the other yet"
                )
            }
        }
    }

    pub(super) fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let peers = self.lock();
        let sessions = peers.values().filter_map(|peer| peer.session.as_ref());
        sessions
            .map(|running| (running.key, Arc::clone(&running.client)))
            .collect()
    }

    pub(super) fn take_clients(&self) -> Vec<Arc<Client>> {
        let mut peers = self.lock();
        let sessions = peers.values_mut().filter_map(|peer| peer.session.take());
        sessions.map(Running::stop).collect()
    }

    /// Takes the clients that were not used for that long, and those of hosts that are in the book
    /// no more, or have another key there.
    pub(super) fn take_unused(&self, idle: Duration) -> Vec<Arc<Client>> {
        let mut taken = Vec::new();
        let mut peers = self.lock();
        for (name, peer) in peers.iter_mut() {
            let key = self.book.store().peer(name).and_then(|peer| peer.key);
            let Some(running) = &mut peer.session else {
                continue;
            };
            if peer.waiting > 0 || running.is_used() {
                running.used = Instant::now();
            }
            let is_known = key == Some(running.key);
            if is_known && running.used.elapsed() < idle {
                continue;
            }
            let is_over = !self.door.is_connected(&running.key);
            taken.extend(peer.session.take().map(Running::stop));
            if let Some(uri) = sip_uri(name).filter(|_| is_over) {
                // It ends by itself otherwise.
                let _ = self.asks.try_send(Ask::HangUp(uri));
            }
        }
        peers.retain(|name, peer| {
            let is_known = self.book.store().peer(name).is_some();
            if !is_known && let Some(uri) = sip_uri(name) {
                // Who is in the book no more is not told where this host moves.
                let _ = self.asks.try_send(Ask::HangUp(uri));
            }
            is_known || peer.waiting > 0 || peer.session.is_some()
        });
        taken
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<HostNameAt, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Whether a stream lives in it: each keeps the client, as this and its task do.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.client) > 2
    }

    fn stop(self) -> Arc<Client> {
        self.serving.abort();
        self.client
    }
}

/// A connection that waits for a session with a host.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    name: HostNameAt,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(peer) = self.shared.lock().get_mut(&self.name) {
            peer.waiting -= 1;
        }
    }
}

/// Serves the streams that the other host opens in a session which this one has begun.
async fn serve(offers: Arc<Offers>, peer: PublicKey, client: Arc<Client>) {
    while let Some(stream) = client.accept().await {
        let stream = Bonded::of_client(stream, Arc::clone(&client));
        tokio::spawn(Arc::clone(&offers).serve(peer, stream));
    }
}

const NO_ADDRESS: &str = "it names no address that could be tried";
/// For so long nobody asks again.
const KEEP_PROBLEM: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
