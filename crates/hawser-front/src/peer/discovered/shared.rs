//! Knowledge about servers, and sessions with them.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_capture::Learnt;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::store::{Pin, PinStore, StoreError};
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::{Client, FirstConnection};
use hawser_policy::RuleSet;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::servers::{ASIDE, NOT_FRONTED, Problem, Servers};
use super::turns::Turns;
use super::way::Discovered;
use crate::bonded::{BondDialer, Bonded};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::own_ports::at_peer;
use crate::peer::finder::PeerFinder;
use crate::peer::names::Names;
use crate::peer::peers::HEAD_START;
use crate::peer::pool::SessionPool;
use crate::resolve::SystemResolver;
use crate::transport::{DialError, Dialer as _};

/// State that the tasks and dialers of one set of servers share.
pub(super) struct DiscoveredState {
    pub(super) finder: PeerFinder,
    pub(super) pins: Arc<PinStore>,
    pub(super) start: Box<StartSession>,
    pub(super) is_enrolled: Box<IsEnrolled>,
    /// Keyed also by the server's key: a pin may end before its session does.
    pub(super) pool: SessionPool<(SocketAddr, PublicKey)>,
    pub(super) rules: watch::Receiver<Arc<RuleSet>>,
    pub(super) require_bonded: bool,
    pub(super) names: Names<SystemResolver>,
    pub(super) servers: Mutex<Servers>,
    /// `None` where handshakes are not observed.
    pub(super) spoken: Option<Spoken>,
    pub(super) turns: Turns,
}

/// Functions that look up results of handshakes.
pub(super) struct Spoken {
    /// Whether handshakes with an address reveal nothing.
    pub(super) are_silent: Box<AreSilent>,
    /// The result of the handshake of one connected socket that asked for a bond.
    pub(super) answers: Box<Answers>,
}

pub(super) type AreSilent = dyn Fn(IpAddr) -> bool + Send + Sync;
pub(super) type Answers = dyn Fn(BorrowedFd<'_>) -> Option<Learnt> + Send + Sync;
pub(super) type StartSession =
    dyn Fn(Pin, Identity, Option<FirstConnection>) -> Option<Arc<Client>> + Send + Sync;
pub(super) type IsEnrolled = dyn Fn(IpAddr) -> bool + Send + Sync;

impl DiscoveredState {
    pub(super) fn address_of(&self, destination: &Destination) -> Option<SocketAddr> {
        let address = match &destination.host {
            Host::Ip(address) => *address,
            Host::Name(name) => self.names.address(name)?,
        };
        Some(SocketAddr::new(address.to_canonical(), destination.port))
    }

    /// Returns the pin for an address and port, unless this host has enrolled with the host there.
    pub(super) fn pin(&self, at: SocketAddr) -> Option<Pin> {
        let pin = self.pins.pin(at, UnixTime::now())?;
        (!(self.is_enrolled)(at.ip().to_canonical())).then_some(pin)
    }

    /// Returns whether connections to the pin's port must go over a session or be refused. A
    /// server proves its key for all ports of an address, so an unconfirmed pin is not enough.
    pub(super) fn is_required(&self, pin: Pin) -> bool {
        self.require_bonded && pin.is_confirmed
    }

    /// Asks the server at `at` for its key if it may have Hawser, and begins a session with it.
    pub(super) fn look_for(self: &Arc<Self>, at: SocketAddr) {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        self.seek(at, self.may_have_it(at));
    }

    /// As [`Self::look_for`], for a connection that the kernel has placed on a link. Probes no
    /// server where handshakes are not observed: that would probe every destination.
    pub(super) fn look_for_placed(self: &Arc<Self>, at: SocketAddr) {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        self.seek(at, self.is_likely(at));
    }

    fn seek(self: &Arc<Self>, at: SocketAddr, may_probe: bool) {
        if (self.is_enrolled)(at.ip()) {
            return;
        }
        self.servers.lock().note_asked(at, Instant::now());
        if self.is_hint_amiss(at) {
            return;
        }
        let key = if may_probe {
            self.finder.ask(at.ip())
        } else {
            self.finder.known(at.ip())
        };
        if let Some(key) = key {
            tokio::spawn(meet(Arc::clone(self), at, key));
        }
    }

    /// Returns whether a server that connections reach is worth a probe. Where handshakes are
    /// observed, a destination that makes no offer receives no more packets than without Hawser.
    pub(super) fn may_have_it(&self, at: SocketAddr) -> bool {
        self.spoken.is_none() || self.is_likely(at)
    }

    /// Returns whether the server has shown that it has Hawser, or its handshakes reveal nothing.
    pub(super) fn is_likely(&self, at: SocketAddr) -> bool {
        let has_said_so = self.servers.lock().has_offered(at);
        let spoken = self.spoken.as_ref();
        has_said_so || spoken.is_some_and(|it| (it.are_silent)(at.ip())) || self.pin(at).is_some()
    }

    /// Returns the result of the handshake of one connected socket that asked for a bond.
    pub(super) fn learnt(&self, socket: BorrowedFd<'_>) -> Option<Learnt> {
        (self.spoken.as_ref()?.answers)(socket)
    }

    /// Returns whether the last handshake named another key than the pinned one.
    pub(super) fn is_hint_amiss(&self, at: SocketAddr) -> bool {
        let hint = self.servers.lock().hint(at);
        let pin = self.pin(at);
        pin.zip(hint)
            .is_some_and(|(pin, hint)| pin.key.hint() != hint)
    }

    pub(super) fn start(&self, pin: Pin) -> Option<Arc<Client>> {
        let identity = self.pins.identity(pin.at, UnixTime::now())?;
        (self.start)(pin, identity, None)
    }

    pub(super) fn only_way<'a>(
        &'a self,
        pin: Pin,
        found: Option<PublicKey>,
        origin: &'a Origin,
    ) -> Discovered<'a, Bonded> {
        Discovered {
            at: pin.at,
            is_only_way: true,
            head_start: HEAD_START,
            dialing: self.dial_only(pin, found, origin).boxed(),
        }
    }

    /// Returns a dialer for a session in which the server at `at` has proved the pinned key or is
    /// about to prove it, with the pin.
    pub(super) fn hopeful(&self, at: SocketAddr) -> Option<(Pin, BondDialer)> {
        let pin = self.pin(at)?;
        Some((pin, self.pool.hopeful(far(pin))?))
    }

    /// Opens a stream only over the session with a server; begins the session if there is none.
    pub(super) async fn dial_only(
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
        let way = self.pool.dialer(far(pin), || self.start(pin));
        let way = way.ok_or(DialError::GatewayUnavailable)?;
        self.dial_by(way, pin, origin).await
    }

    pub(super) async fn dial_by(
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
                self.servers.lock().set_problem(at, None);
                // From now on, keep the pin as long as the server wants.
                let wanted = <[u8; 4]>::try_from(stream.answer()).map_or(FIRST_PIN, |seconds| {
                    Duration::from_secs(u32::from_be_bytes(seconds).into())
                });
                let pins = Arc::clone(&self.pins);
                tokio::spawn(change(at, move |now| {
                    pins.confirm(at, pin.key, (now + wanted, now))
                }));
            }
            // The server works; nothing listens on the port.
            Err(DialError::ConnectionRefused) => {}
            Err(error) => {
                let is_fronted = *error != DialError::RefusedByPolicy;
                let span = if is_fronted { ASIDE } else { NOT_FRONTED };
                self.servers.lock().set_aside(at, span, Instant::now());
                self.tell(at, Problem::Refused(*error));
                if !is_fronted {
                    self.pool.give_up(far(pin));
                    let pins = Arc::clone(&self.pins);
                    tokio::spawn(change(at, move |_| pins.drop_unconfirmed(at, pin.key)));
                }
            }
        }
        dialed
    }

    /// Records and logs why connections to a server go without a session.
    pub(super) fn tell(&self, at: SocketAddr, problem: Problem) {
        if !self.servers.lock().set_problem(at, Some(problem)) {
            return;
        }
        match problem {
            // A server need not open all its ports to hosts that have not enrolled.
            Problem::Refused(_) => {
                tracing::info!(server = %at, %problem, "not bonded with this server");
            }
            _ => tracing::warn!(server = %at, %problem, "not bonded with this server"),
        }
    }
}

/// Returns the pool's key for the session with a server that has proved the pinned key.
pub(super) fn far(pin: Pin) -> (SocketAddr, PublicKey) {
    (pin.at, pin.key)
}

/// Begins a session with the server at `at`, which has proved `key`, if that key or no key is
/// pinned there.
pub(super) async fn meet(shared: Arc<DiscoveredState>, at: SocketAddr, key: PublicKey) {
    let hint = shared.servers.lock().hint(at);
    if hint.is_some_and(|hint| hint != key.hint()) {
        return shared.tell(at, Problem::OtherHint);
    }
    let is_amiss = shared.servers.lock().is_set_aside(at, Instant::now());
    let pin = match shared.pins.pin(at, UnixTime::now()) {
        Some(pin) => pin,
        // The server is set aside, for example because it does not front this port.
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
        let _ = shared.pool.way(far(pin), || shared.start(pin));
    }
}

/// Changes the pin file for the server at `at` with `change` at the present time. Returns the
/// result of `change`; `None` where the file can't be changed, which is logged.
pub(super) async fn change<T: Send + 'static>(
    at: SocketAddr,
    change: impl FnOnce(UnixTime) -> Result<T, StoreError> + Send + 'static,
) -> Option<T> {
    match spawn_blocking(move || change(UnixTime::now())).await {
        Ok(Ok(changed)) => Some(changed),
        Ok(Err(error)) => {
            tracing::warn!(server = %at, %error, "can't change the file of server keys");
            None
        }
        Err(_) => None,
    }
}

/// Lifetime of a pin until the server has named a lifetime.
pub(super) const FIRST_PIN: Duration = Duration::from_secs(86_400);
