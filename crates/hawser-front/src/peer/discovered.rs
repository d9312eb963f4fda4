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
mod servers;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hawser_net::client::Client;
use hawser_net::identity::{Identity, PublicKey};
use hawser_net::store::{Pin, PinStore, StoreError};
use hawser_net::unix_time::UnixTime;
use hawser_policy::RuleSet;
use hawser_wire::Heard;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::Instant;

use super::PeerFinder;
use super::names::Names;
use super::peers::may_use_all_links;
use super::pool::SessionPool;
use crate::bonded::{BondDialer, Bonded};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::own_ports::at_peer;
use crate::resolve::SystemResolver;
use crate::transport::{DialError, Dialer as _};
use servers::{ASIDE, NOT_FRONTED, Servers};
pub use servers::{FoundServer, NotBonded, Problem};

/// The parts that find servers and connect to them.
pub struct DiscoverySettings {
    /// Asks addresses for the key of the server there, whichever that is.
    pub finder: PeerFinder,
    /// The keys of servers that are known.
    pub pins: PinStore,
    /// Begins to connect to a server with this host's key towards it, where it can.
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
}

type AreSilent = dyn Fn(IpAddr) -> bool + Send + Sync;
type StartSession = dyn Fn(Pin, Identity) -> Option<Arc<Client>> + Send + Sync;
type IsEnrolled = dyn Fn(IpAddr) -> bool + Send + Sync;

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

    /// A connection to `host` has gone over a link to `at`: has the server there asked for its key.
    fn look_for(&self, host: &Host, at: SocketAddr);

    /// How a connection that has gone over a link to `at` has to go over a session instead; `None`
    /// where it may stay. Of a name it is not known before where it leads.
    fn required<'a>(
        &'a self,
        at: SocketAddr,
        destination: &Destination,
        origin: &'a Origin,
    ) -> Option<Discovered<'a, S>>;

    /// The session with the server was slower than a link.
    fn note_overtaken(&self, at: SocketAddr);
}

/// A connection that goes over a session with a server.
pub struct Discovered<'a, S> {
    /// The server's address and port.
    pub at: SocketAddr,
    /// It may go no other way.
    pub is_only_way: bool,
    /// Opens the stream.
    pub dialing: BoxFuture<'a, Result<S, DialError>>,
}

struct Shared {
    finder: PeerFinder,
    pins: Arc<PinStore>,
    start: Box<StartSession>,
    is_enrolled: Box<IsEnrolled>,
    pool: SessionPool<SocketAddr>,
    rules: watch::Receiver<Arc<RuleSet>>,
    require_bonded: bool,
    names: Names<SystemResolver>,
    servers: Mutex<Servers>,
    /// None where nobody listens to handshakes.
    are_silent: Option<Box<AreSilent>>,
}

struct Following(AbortHandle);

impl DiscoveredServers {
    /// Begins to look for servers.
    pub fn start(settings: DiscoverySettings) -> Self {
        let (heard, are_silent) = settings
            .handshakes
            .map(|it| (it.heard, it.are_silent))
            .unzip();
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
            are_silent,
        });
        let following = tokio::spawn(follow(Arc::clone(&shared), heard));
        Self {
            shared,
            _following: Arc::new(Following(following.abort_handle())),
        }
    }

    /// The clients, with the keys of the servers.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        let now = UnixTime::now();
        let clients = self.shared.pool.clients().into_iter();
        let known = clients.filter_map(|(at, it)| Some((self.shared.pins.pin(at, now)?.key, it)));
        known.collect()
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
        // It is asked again in time.
        let found = shared.finder.ask(at.ip());
        if shared.is_required(pin) {
            return Some(shared.only_way(pin, found, origin));
        }
        if found != Some(pin.key) || shared.lock().is_set_aside(at, Instant::now()) {
            return None;
        }
        let way = shared.pool.way(at, || shared.start(pin))?;
        Some(Discovered {
            at,
            is_only_way: false,
            dialing: shared.dial_by(way, pin, origin).boxed(),
        })
    }

    fn look_for(&self, host: &Host, at: SocketAddr) {
        let shared = &self.shared;
        if let Host::Name(name) = host {
            shared.names.note(name, at.ip());
        }
        shared.look_for(at);
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

    fn note_overtaken(&self, at: SocketAddr) {
        self.shared.lock().set_aside(at, ASIDE, Instant::now());
    }
}

impl Shared {
    fn address_of(&self, destination: &Destination) -> Option<SocketAddr> {
        let address = match &destination.host {
            Host::Ip(address) => *address,
            Host::Name(name) => self.names.address(name)?,
        };
        Some(SocketAddr::new(address.to_canonical(), destination.port))
    }

    /// What is pinned for an address and port of a host that this one has not enrolled with.
    fn pin(&self, at: SocketAddr) -> Option<Pin> {
        let pin = self.pins.pin(at, UnixTime::now())?;
        (!(self.is_enrolled)(at.ip().to_canonical())).then_some(pin)
    }

    /// Whether connections go over a session or nowhere. A key is proved by the address, so one
    /// that is not confirmed says nothing of the port.
    fn is_required(&self, pin: Pin) -> bool {
        self.require_bonded && pin.is_confirmed
    }

    /// Has the server at `at` asked for its key where it may have Hawser, and a session with it
    /// begun.
    fn look_for(self: &Arc<Self>, at: SocketAddr) {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        if (self.is_enrolled)(at.ip()) {
            return;
        }
        self.lock().note_asked(at, Instant::now());
        let key = match self.may_have_it(at) {
            true => self.finder.ask(at.ip()),
            false => self.finder.known(at.ip()),
        };
        if let Some(key) = key {
            tokio::spawn(meet(Arc::clone(self), at, key));
        }
    }

    /// Whether a probe of a server that connections go to is worth it. Where handshakes speak, a
    /// destination that says nothing has no packet more than without Hawser.
    fn may_have_it(&self, at: SocketAddr) -> bool {
        let Some(are_silent) = &self.are_silent else {
            return true;
        };
        let has_said_so = self.lock().has_offered(at);
        has_said_so || are_silent(at.ip()) || self.pins.pin(at, UnixTime::now()).is_some()
    }

    fn start(&self, pin: Pin) -> Option<Arc<Client>> {
        let identity = self.pins.identity(pin.at, UnixTime::now())?;
        (self.start)(pin, identity)
    }

    fn only_way<'a>(
        &'a self,
        pin: Pin,
        found: Option<PublicKey>,
        origin: &'a Origin,
    ) -> Discovered<'a, Bonded> {
        Discovered {
            at: pin.at,
            is_only_way: true,
            dialing: self.dial_only(pin, found, origin).boxed(),
        }
    }

    /// Opens a stream over the session with a server, begun or not, and in no other way.
    async fn dial_only(
        &self,
        pin: Pin,
        found: Option<PublicKey>,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        if let Some(got) = found.filter(|found| *found != pin.key) {
            let pinned = pin.key;
            self.tell(pin.at, Problem::OtherKey { pinned, got });
            return Err(DialError::RefusedByPolicy);
        }
        let way = self.pool.dialer(pin.at, || self.start(pin));
        let way = way.ok_or(DialError::GatewayUnavailable)?;
        self.dial_by(way, pin, origin).await
    }

    async fn dial_by(
        &self,
        way: BondDialer,
        pin: Pin,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let at = pin.at;
        let dialed = way.dial_for(&at_peer(at.port()), origin).await;
        match &dialed {
            Ok(stream) => {
                self.pool.note_opened();
                self.lock().set_problem(at, None);
                // As long as the server wants, from now on.
                let wanted = <[u8; 4]>::try_from(stream.answer()).map_or(FIRST_PIN, |seconds| {
                    Duration::from_secs(u32::from_be_bytes(seconds).into())
                });
                let pins = Arc::clone(&self.pins);
                tokio::spawn(change(at, move |now| {
                    pins.confirm(at, pin.key, (now + wanted, now))
                }));
            }
            // The server is as it should be; nothing listens there.
            Err(DialError::ConnectionRefused) => {}
            Err(error) => {
                let is_fronted = *error != DialError::RefusedByPolicy;
                let span = if is_fronted { ASIDE } else { NOT_FRONTED };
                self.lock().set_aside(at, span, Instant::now());
                self.tell(at, Problem::Refused(*error));
                if !is_fronted {
                    self.pool.give_up(at);
                    let pins = Arc::clone(&self.pins);
                    tokio::spawn(change(at, move |_| pins.drop_unconfirmed(at, pin.key)));
                }
            }
        }
        dialed
    }

    /// Why connections to a server go without a session.
    fn tell(&self, at: SocketAddr, problem: Problem) {
        if !self.lock().set_problem(at, Some(problem)) {
            return;
        }
        match problem {
            // A server need not have all its ports for strangers.
            Problem::Refused(_) => {
                tracing::info!(server = %at, %problem, "not bonded with this server");
            }
            _ => tracing::warn!(server = %at, %problem, "not bonded with this server"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
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
        // One that was found by a probe may never have said so.
        let had_it = shared.lock().has_offered(at);
        if had_it && pin.is_some() {
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

/// Begins a session with the server at `at`, which has proved `key`, if it is the one that is
/// pinned there or none is.
async fn meet(shared: Arc<Shared>, at: SocketAddr, key: PublicKey) {
    let hint = shared.lock().hint(at);
    if hint.is_some_and(|hint| hint != key.hint()) {
        return shared.tell(at, Problem::OtherHint);
    }
    let is_amiss = shared.lock().is_set_aside(at, Instant::now());
    let pin = match shared.pins.pin(at, UnixTime::now()) {
        Some(pin) => pin,
        // As a port that is not fronted.
        None if is_amiss => return,
        None => {
            let pins = Arc::clone(&shared.pins);
            let kept = change(at, move |now| pins.keep(at, key, (now + FIRST_PIN, now)));
            match kept.await {
                Some(pin) => pin,
                None => return,
            }
        }
    };
    if pin.key != key {
        let pinned = pin.key;
        return shared.tell(at, Problem::OtherKey { pinned, got: key });
    }
    if !is_amiss {
        let _ = shared.pool.way(at, || shared.start(pin));
    }
}

/// Changes the file of pins for the server at `at`, as `change` does at the present time. Returns
/// what that returned; none where the file can't be changed, which is logged.
async fn change<T: Send + 'static>(
    at: SocketAddr,
    change: impl FnOnce(UnixTime) -> Result<T, StoreError> + Send + 'static,
) -> Option<T> {
    match spawn_blocking(move || change(UnixTime::now())).await {
        Ok(Ok(changed)) => Some(changed),
        Ok(Err(error)) => {
            tracing::warn!(server = %at, %error, "the file of servers' keys can't be changed");
            None
        }
        Err(_) => None,
    }
}

/// Until the server has said for how long.
const FIRST_PIN: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests;
