//! Servers that have Hawser on the way to their services, and that this host has not enrolled with.
//!
//! A connection goes as ever. What its handshake says, or else a probe beside it, tells whether the
//! server has Hawser; then the server is asked for its key. From then on connections to that
//! address and port go over a session with the server, over all links, for as long as it proves the
//! same key. Towards each server this host shows a key of its own. Where anything is
//! amiss, connections go as if there were no Hawser, unless the user has them refused.
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
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_net::client::Client;
use hawser_net::identity::PublicKey;
use hawser_net::store::PinStore;
use hawser_policy::RuleSet;
use hawser_wire::Heard;
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
use shared::{Answers, AreSilent, IsEnrolled, Shared, Spoken, StartSession, far, meet};
use turns::Turns;
pub use way::{BondAnswer, Discovered};

/// The parts that find servers and connect to them.
pub struct DiscoverySettings {
    /// Asks addresses for the key of the server there, whichever that is.
    pub finder: PeerFinder,
    /// The keys of servers that are known.
    pub pins: PinStore,
    /// Begins to connect to a server with this host's key towards it, where it can; on a connection
    /// that is there already, where there is one.
    pub start: Box<StartSession>,
    /// Whether this host has enrolled with the host at an address: such a host is left alone.
    pub is_enrolled: Box<IsEnrolled>,
    /// The user's rules for connections.
    pub rules: watch::Receiver<Arc<RuleSet>>,
    /// Refuse connections to a server that has accepted a stream with the pinned key, rather than
    /// have them go without a session.
    pub require_bonded: bool,
    /// What handshakes say; none where nobody listens to them.
    pub handshakes: Option<Handshakes>,
}

/// What the handshakes of this machine's connections say of servers (protocol §16).
pub struct Handshakes {
    /// What was said, as it comes.
    pub heard: mpsc::Receiver<Heard>,
    /// Whether they say nothing at all of an address, since something on the way alters them.
    pub are_silent: Box<AreSilent>,
    /// What the handshake of one connected socket has shown that asked for a bond; `None` where
    /// nothing is known.
    pub answers: Box<Answers>,
}

/// Sessions with servers that were discovered. Lives until its last clone is dropped.
#[derive(Clone)]
pub struct DiscoveredServers {
    shared: Arc<Shared>,
    _following: Arc<Following>,
}

/// Opens streams to services of servers that were discovered.
pub trait DialDiscovered<S>: Send + Sync {
    /// How a connection to `destination` goes over a session; `None` where it goes as ever.
    fn dial<'a>(
        &'a self,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, S>>;

    /// A connection to `destination` has gone over a link to `at`: has the server there asked for
    /// its key, where rules let the connection go over all links.
    fn look_for(&self, at: SocketAddr, destination: &Destination, origin: &Origin);

    /// How a connection that has gone over a link to `at` has to go over a session instead; `None`
    /// where it may stay. Of a name it is not known before where it leads.
    fn required<'a>(
        &'a self,
        at: SocketAddr,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, S>>;

    /// Whether the handshake of a connection to `destination` that goes over a link to `at` is to
    /// ask for a bond.
    fn asks_bond(&self, at: SocketAddr, destination: &Destination, origin: &Origin) -> bool;

    /// What the server has said to a handshake that asked for one.
    fn bond_answer<'a>(
        &'a self,
        socket: BorrowedFd<'_>,
        destination: &Destination,
        origin: &'a Origin,
    ) -> BondAnswer<'a, S>;

    /// The session with the server was slower than a link.
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
        let shared = Arc::new(Shared {
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

    /// The clients, with the keys of the servers.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let clients = self.shared.pool.clients().into_iter();
        clients.map(|((_, key), client)| (key, client)).collect()
    }

    /// Connections that came about over sessions so far.
    pub fn opened(&self) -> u64 {
        self.shared.pool.opened()
    }

    /// Servers that connections go to without a session although they have said that they have
    /// Hawser, and why.
    pub fn not_bonded(&self) -> Vec<NotBonded> {
        self.shared.lock().problems()
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
        if !may_use_all_links(&shared.rules.borrow(), destination, origin) {
            return None;
        }
        let pin = shared.pin(at)?;
        // A session that runs has proved the key. Else it is asked for again in time.
        let running = shared.pool.running(far(pin));
        let found = match running {
            Some(_) => Some(pin.key),
            None => shared.finder.ask(at.ip()),
        };
        if shared.is_required(pin) {
            return Some(shared.only_way(pin, found, origin));
        }
        if found != Some(pin.key) || shared.lock().is_set_aside(at, Instant::now()) {
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
        self.shared.lock().set_aside(at, ASIDE, Instant::now());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Begins sessions with servers that were asked for their keys and have proved them, and goes by
/// what handshakes say.
async fn follow(shared: Arc<Shared>, mut heard: Option<mpsc::Receiver<Heard>>) {
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
                let asked = shared.lock().asked(Instant::now());
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

/// Takes in what a handshake has said.
fn take_in(shared: &Arc<Shared>, heard: Heard) {
    let at = SocketAddr::new(heard.to.ip().to_canonical(), heard.to.port());
    let pin = shared.pin(at);
    let Some(offer) = heard.offer else {
        // One that was found by a probe may never have said so, and a session that runs shows more.
        let had_it = shared.lock().has_offered(at);
        let runs = |pin| shared.pool.running(far(pin)).is_some();
        if had_it && pin.is_some_and(|pin| !runs(pin)) {
            shared.tell(at, Problem::NotOffered);
        }
        return;
    };
    shared.lock().note_offer(at, offer.key_hint);
    // Before anything is begun.
    if let (Some(pin), Some(hint)) = (pin, offer.key_hint)
        && pin.key.hint() != hint
    {
        return shared.tell(at, Problem::OtherHint);
    }
    // Connections that Hawser has nothing to do with have handshakes, too.
    let is_wanted = shared.lock().is_asked(at, Instant::now());
    if is_wanted {
        shared.look_for(at);
    }
}

#[cfg(test)]
mod tests;
