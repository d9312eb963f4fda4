//! Servers that front their services with Hawser, and that this host has not enrolled with.
//!
//! The first connection to a server goes over a link as usual. Its handshake, or a parallel probe,
//! tells whether the server has Hawser; then this host asks the server for its key. From then on,
//! connections to that address and port go over a session with the server, over all links, as long
//! as the server proves the same key. This host shows each server a different key. If a check
//! fails, connections go as if there were no Hawser, unless the user has them refused.
//!
//! Source: DBAS §II.A, the detection of the mode; BATCP §3.1, that both ends say they have it.

mod bonded;
mod bonding;
mod servers;
mod shared;
mod turns;
mod way;

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_keys::identity::PublicKey;
use hawser_keys::store::PinStore;
use hawser_net::client::Client;
use hawser_policy::RuleSet;
use hawser_wire::Heard;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::PeerFinder;
use super::names::Names;
use super::peers::{HEAD_START, may_use_all_links};
use super::pool::SessionPool;
use crate::bonded::Bonded;
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::resolve::SystemResolver;
use servers::ASIDE;
pub use servers::{FoundServer, NotBonded, Problem};
use shared::{Answers, AreSilent, DiscoveredState, IsEnrolled, Spoken, StartSession, far, meet};
use turns::Turns;
pub use way::{BondAnswer, Discovered};

/// The parts that find servers and connect to them.
pub struct DiscoverySettings {
    /// Asks an address for the key of whichever server is there.
    pub finder: PeerFinder,
    /// The pinned keys of known servers.
    pub pins: PinStore,
    /// Begins to connect to a server with this host's key for that server, if possible. Uses an
    /// existing connection where one is given.
    pub start: Box<StartSession>,
    /// Whether this host has enrolled with the host at an address. Such a host is skipped.
    pub is_enrolled: Box<IsEnrolled>,
    /// The user's rules for connections.
    pub rules: watch::Receiver<Arc<RuleSet>>,
    /// Refuse a connection that can't go over a session, if its server has accepted a stream with
    /// the pinned key. If false, the connection goes without a session.
    pub require_bonded: bool,
    /// Results of handshakes; `None` where handshakes are not observed.
    pub handshakes: Option<Handshakes>,
}

/// What the handshakes of this machine's connections reveal about servers (protocol §16).
pub struct Handshakes {
    /// Handshake results, in order of arrival.
    pub heard: mpsc::Receiver<Heard>,
    /// Whether handshakes with an address reveal nothing, because a middlebox alters them.
    pub are_silent: Box<AreSilent>,
    /// The result of the handshake of one connected socket that asked for a bond; `None` where
    /// nothing is known.
    pub answers: Box<Answers>,
}

/// Sessions with servers that were discovered. Lives until its last clone is dropped.
#[derive(Clone)]
pub struct DiscoveredServers {
    shared: Arc<DiscoveredState>,
    _following: Arc<Following>,
}

/// Opens streams to services of servers that were discovered.
pub trait DialDiscovered<S>: Send + Sync {
    /// Returns how a connection to `destination` goes over a session, if it does.
    fn dial<'a>(
        &'a self,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, S>>;

    /// Asks the server at `at` for its key, after a connection to `destination` has gone there over
    /// a link. Does so only where rules let the connection use all links.
    fn look_for(&self, at: SocketAddr, destination: &Destination, origin: &Origin);

    /// Returns how a connection that has gone over a link to `at` must go over a session instead;
    /// `None` where it may stay. For a name, the address is known only after connecting.
    fn required<'a>(
        &'a self,
        at: SocketAddr,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, S>>;

    /// Returns whether the handshake of a connection to `destination` over a link to `at` must ask
    /// for a bond.
    fn asks_bond(&self, at: SocketAddr, destination: &Destination, origin: &Origin) -> bool;

    /// Returns the server's answer to a handshake that asked for a bond.
    fn bond_answer<'a>(
        &'a self,
        socket: BorrowedFd<'_>,
        destination: &Destination,
        origin: &'a Origin,
    ) -> BondAnswer<'a, S>;

    /// Records that the session with the server was slower than a link.
    fn note_overtaken(&self, at: SocketAddr);
}

struct Following(AbortHandle);

impl DiscoveredServers {
    /// Begins to look for servers.
    pub fn start(settings: DiscoverySettings) -> Self {
        let handshakes = settings.handshakes.map(|it| {
            let (are_silent, answers) = (it.are_silent, it.answers);
            let spoken = Spoken {
                are_silent,
                answers,
            };
            (it.heard, spoken)
        });
        let (heard, spoken) = handshakes.unzip();
        let shared = Arc::new(DiscoveredState {
            finder: settings.finder,
            pins: Arc::new(settings.pins),
            start: settings.start,
            is_enrolled: settings.is_enrolled,
            pool: SessionPool::new(),
            rules: settings.rules,
            require_bonded: settings.require_bonded,
            names: Names::new(SystemResolver::new()),
            servers: Mutex::default(),
            spoken,
            turns: Turns::default(),
        });
        let following = tokio::spawn(follow(Arc::clone(&shared), heard));
        Self {
            shared,
            _following: Arc::new(Following(following.abort_handle())),
        }
    }

    /// Returns the client of each session, with the key of its server.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let clients = self.shared.pool.clients().into_iter();
        clients.map(|((_, key), client)| (key, client)).collect()
    }

    /// Returns how many connections were opened over sessions so far.
    pub fn opened(&self) -> u64 {
        self.shared.pool.opened()
    }

    /// Returns the servers with Hawser that connections reach without a session, and the reasons.
    pub fn not_bonded(&self) -> Vec<NotBonded> {
        self.shared.servers.lock().problems()
    }

    /// Ends all sessions in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        self.shared.pool.close(patience).await;
    }
}

impl DialDiscovered<Bonded> for DiscoveredServers {
    fn dial<'a>(
        &'a self,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, Bonded>> {
        let shared = &self.shared;
        let at = shared.address_of(destination)?;
        let pin = shared.pin(at)?;
        // A running session has proved the key. Without a session, the finder probes when due.
        let running = shared.pool.running(far(pin));
        let found = match running {
            Some(_) => Some(pin.key),
            None => shared.finder.ask(at.ip()),
        };
        if shared.is_required(pin) {
            return Some(shared.only_way(pin, found, origin));
        }
        if found != Some(pin.key) || shared.servers.lock().is_set_aside(at, Instant::now()) {
            return None;
        }
        let way = running.or_else(|| shared.pool.way(far(pin), || shared.start(pin)))?;
        Some(Discovered {
            at,
            is_only_way: false,
            head_start: HEAD_START,
            dialing: shared.dial_by(way, pin, origin).boxed(),
        })
    }

    fn look_for(&self, at: SocketAddr, destination: &Destination, origin: &Origin) {
        let shared = &self.shared;
        if let Host::Name(name) = &destination.host {
            shared.names.note(name, at.ip());
        }
        if may_use_all_links(&shared.rules.borrow(), destination, origin) {
            shared.look_for(at);
        }
    }

    fn required<'a>(
        &'a self,
        at: SocketAddr,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, Bonded>> {
        let shared = &self.shared;
        let may_be = may_use_all_links(&shared.rules.borrow(), destination, origin);
        let pin = shared.pin(at);
        let pin = pin.filter(|pin| shared.is_required(*pin) && may_be)?;
        Some(shared.only_way(pin, shared.finder.ask(at.ip()), origin))
    }

    fn asks_bond(&self, at: SocketAddr, destination: &Destination, origin: &Origin) -> bool {
        self.shared.asks_bond(at, destination, origin)
    }

    fn bond_answer<'a>(
        &'a self,
        socket: BorrowedFd<'_>,
        destination: &Destination,
        origin: &'a Origin,
    ) -> BondAnswer<'a, Bonded> {
        self.shared.bond_answer(socket, &destination.host, origin)
    }

    fn note_overtaken(&self, at: SocketAddr) {
        self.shared
            .servers
            .lock()
            .set_aside(at, ASIDE, Instant::now());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins sessions with servers that have proved their keys on request, and handles handshake
/// results.
async fn follow(shared: Arc<DiscoveredState>, mut heard: Option<mpsc::Receiver<Heard>>) {
    let mut found = shared.finder.found();
    loop {
        let hear = async {
            match &mut heard {
                Some(heard) => heard.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = found.changed() => {
                if changed.is_err() {
                    return;
                }
                let keys = Arc::clone(&found.borrow_and_update());
                let asked = shared.servers.lock().asked(Instant::now());
                let key = |at: &SocketAddr| keys.get(&at.ip()).copied();
                for (at, key) in asked.iter().filter_map(|at| Some((*at, key(at)?))) {
                    tokio::spawn(meet(Arc::clone(&shared), at, key));
                }
            }
            said = hear => match said {
                Some(said) => take_in(&shared, said),
                None => heard = None,
            },
        }
    }
}

/// Handles the result of a handshake.
fn take_in(shared: &Arc<DiscoveredState>, heard: Heard) {
    let at = SocketAddr::new(heard.to.ip().to_canonical(), heard.to.port());
    let pin = shared.pin(at);
    let Some(offer) = heard.offer else {
        // Servers found by a probe may never make an offer, and a running session proves more.
        let had_it = shared.servers.lock().has_offered(at);
        let runs = |pin| shared.pool.running(far(pin)).is_some();
        if had_it && pin.is_some_and(|pin| !runs(pin)) {
            shared.tell(at, Problem::NotOffered);
        }
        return;
    };
    shared.servers.lock().note_offer(at, offer.key_hint);
    // Check the hint before a session begins.
    if let (Some(pin), Some(hint)) = (pin, offer.key_hint)
        && pin.key.hint() != hint
    {
        return shared.tell(at, Problem::OtherHint);
    }
    // Results also arrive for the handshakes of connections that Hawser does not handle.
    let is_wanted = shared.servers.lock().is_asked(at, Instant::now());
    if is_wanted {
        shared.look_for(at);
    }
}

#[cfg(test)]
mod tests;
