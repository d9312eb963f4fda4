//! Sessions that begin on the connection whose handshake asked for a bond.
//!
//! The server has agreed, so its Hawser holds the connection, on the port of the service. The
//! connection becomes the first channel of a session, and the application's data a stream in it. So
//! even the first connection to an unknown server goes over all links.
//!
//! Source: BATCP §3.1.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_capture::{Learnt, Outcome, kernel_time};
use hawser_keys::store::Pin;
use hawser_keys::unix_time::UnixTime;
use hawser_net::client::{FirstConnection, SharedPort};
use hawser_seal::TlsClient;
use hawser_types::{Instant as KernelTime, LinkIndex};
use hawser_wire::KeyHint;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::servers::{ASIDE, Problem};
use super::shared::{DiscoveredState, FIRST_PIN, change, far};
use super::way::{BondAnswer, Discovered};
use crate::bonded::{BondDialer, Bonded};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::peer::peers::may_use_all_links;
use crate::transport::{ByteStream as _, DialError, ResetCode};

/// A connection that the server's Hawser holds.
struct TakenConnection {
    stream: TcpStream,
    link: LinkIndex,
    at: SocketAddr,
    hint: KeyHint,
    /// Time at which the connection was established, by the kernel's clock. Nothing was sent since.
    since: KernelTime,
}

impl DiscoveredState {
    /// Returns whether a connection to `destination` at `at` asks for a bond in its handshake. A
    /// connection that requires a session asks even while the server is set aside.
    pub(super) fn asks_bond(
        &self,
        at: SocketAddr,
        destination: &Destination,
        origin: &Origin,
    ) -> bool {
        let at = SocketAddr::new(at.ip().to_canonical(), at.port());
        if self.spoken.is_none()
            || !may_use_all_links(&self.rules.borrow(), destination, origin)
            || (self.is_enrolled)(at.ip())
        {
            return false;
        }
        let pin = self.pin(at);
        if !self.pool.has_room() && !pin.is_some_and(|pin| self.pool.has(&far(pin))) {
            return false;
        }
        let is_required = pin.is_some_and(|pin| self.is_required(pin));
        let (servers, now) = (self.servers.lock(), Instant::now());
        servers.takes_bonds(at, now) && (is_required || !servers.is_set_aside(at, now))
    }

    /// Returns the server's answer to a handshake that asked for a bond.
    pub(super) fn bond_answer<'a>(
        self: &'a Arc<Self>,
        socket: BorrowedFd<'_>,
        host: &Host,
        origin: &'a Origin,
    ) -> BondAnswer<'a, Bonded> {
        let Some(learnt) = self.learnt(socket) else {
            return BondAnswer::None;
        };
        let Outcome::Answered(answer) = learnt.outcome else {
            return BondAnswer::None;
        };
        let at = SocketAddr::new(learnt.to.ip().to_canonical(), learnt.to.port());
        if let Host::Name(name) = host {
            self.names.note(name, at.ip());
        }
        if !answer.bond {
            self.servers.lock().note_bond_refused(at, Instant::now());
            return BondAnswer::Refused;
        }
        self.taken(&learnt, answer.offer.key_hint, (socket, at), origin)
            .map_or(BondAnswer::None, BondAnswer::Taken)
    }

    /// Returns how the connection continues in a session; `None` where it stays an ordinary one.
    fn taken<'a>(
        self: &'a Arc<Self>,
        learnt: &Learnt,
        hint: Option<KeyHint>,
        (socket, at): (BorrowedFd<'_>, SocketAddr),
        origin: &'a Origin,
    ) -> Option<Discovered<'a, Bonded>> {
        if (self.is_enrolled)(at.ip()) {
            return None;
        }
        self.servers.lock().note_offer(at, hint);
        let (hint, link, pin) = (hint?, learnt.link?, self.pin(at));
        if pin.is_some_and(|pin| pin.key.hint() != hint) {
            self.tell(at, Problem::OtherHint);
            return None;
        }
        let socket = socket.try_clone_to_owned().ok()?;
        let taken = TakenConnection {
            stream: TcpStream::from_std(std::net::TcpStream::from(socket)).ok()?,
            link,
            at,
            hint,
            since: learnt.at,
        };
        Some(Discovered {
            at,
            is_only_way: pin.is_some_and(|pin| self.is_required(pin)),
            head_start: HEAD_START,
            dialing: self.bond_on(taken, origin).boxed(),
        })
    }

    /// Opens a stream over a session that begins on this connection, or over the session that
    /// another connection begins.
    async fn bond_on(
        self: &Arc<Self>,
        taken: TakenConnection,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let at = taken.at;
        let turn = self.turns.of(at);
        let begun = match turn.try_lock() {
            Ok(_alone) => match self.hopeful(at) {
                Some(there) => {
                    taken.let_go();
                    Some(there)
                }
                None => {
                    let begun = self.begin_on(taken).await;
                    if begun.is_none() {
                        // The port for hosts that have not enrolled may still give a session.
                        self.servers.lock().note_no_bond(at, Instant::now());
                        self.look_for(at);
                    }
                    begun
                }
            },
            Err(_) => {
                // The server soon passes a connection that stays silent to the service.
                taken.let_go();
                drop(turn.lock().await);
                self.hopeful(at)
            }
        };
        let (pin, way) = begun.ok_or(DialError::GatewayUnavailable)?;
        let dialed = self.dial_by(way, pin, origin).await;
        if dialed.is_ok() {
            self.servers.lock().note_bond(at);
        }
        dialed
    }

    /// Proves this host's key, has the server prove its own, and begins the session.
    async fn begin_on(self: &Arc<Self>, taken: TakenConnection) -> Option<(Pin, BondDialer)> {
        let (at, hint, link) = (taken.at, taken.hint, taken.link);
        let drawn = self.pins.draw(at).ok()?;
        let pinned = self.pin(at).zip(self.pins.identity(at, UnixTime::now()));
        let tls = match &pinned {
            Some((pin, identity)) => TlsClient::new(identity, pin.key),
            None => TlsClient::to_hinted(&drawn.identity, hint),
        };
        let tls = tls.ok()?;
        if is_stale(taken.since) {
            taken.let_go();
            return None;
        }
        let handshake = match timeout(GREETING, tls.handshake(taken.stream)).await {
            Ok(Ok(handshake)) => handshake,
            Ok(Err(error)) => {
                tracing::debug!(%at, %error, "can't begin a session on this connection");
                return None;
            }
            Err(_) => return None,
        };
        let (key, pins) = (handshake.peer, Arc::clone(&self.pins));
        let (pin, identity) = match pinned {
            Some(pinned) => pinned,
            None => {
                let identity = drawn.identity.clone();
                let kept = change(at, move |now| {
                    pins.keep_drawn(at, key, &drawn, (now + FIRST_PIN, now))
                });
                (kept.await?, identity)
            }
        };
        if pin.key != key {
            let pinned = pin.key;
            self.tell(at, Problem::OtherKey { pinned, got: key });
            return None;
        }
        let first = FirstConnection {
            link,
            port: Arc::new(self.service_port(at, hint)),
            handshake,
        };
        let way = self
            .pool
            .begin_on_connection(far(pin), || (self.start)(pin, identity, Some(first)));
        Some((pin, way?))
    }

    /// Returns the service's port on which a session has begun, for the session's further
    /// connections.
    pub(super) fn service_port(self: &Arc<Self>, at: SocketAddr, hint: KeyHint) -> ServicePort {
        ServicePort {
            at,
            hint,
            silent_until: Mutex::default(),
            servers: Arc::downgrade(self),
        }
    }
}

/// A service's port, where Hawser takes further connections of a session as well.
pub(super) struct ServicePort {
    at: SocketAddr,
    /// Hint of the key that the server has proved at this port.
    hint: KeyHint,
    /// Until this time, this session's handshakes ask for no bond: an earlier one got no answer.
    silent_until: Mutex<Option<Instant>>,
    /// The servers whose sessions hold this port; weak, since they own it in turn.
    servers: Weak<DiscoveredState>,
}

impl SharedPort for ServicePort {
    fn at(&self) -> SocketAddr {
        self.at
    }

    fn may_ask(&self) -> bool {
        let (servers, now) = (self.servers.upgrade(), Instant::now());
        let is_silent = self.silent_until.lock().is_some_and(|until| now < until);
        !is_silent && servers.is_some_and(|it| it.servers.lock().takes_bonds(self.at, now))
    }

    fn has_taken(&self, socket: BorrowedFd<'_>) -> bool {
        let Some(servers) = self.servers.upgrade() else {
            return false;
        };
        let (learnt, now) = (servers.learnt(socket), Instant::now());
        if learnt.is_some_and(|learnt| is_stale(learnt.at)) {
            return false;
        }
        match learnt.map(|learnt| learnt.outcome) {
            // Several hosts may share one address.
            Some(Outcome::Answered(answer))
                if answer.bond && answer.offer.key_hint == Some(self.hint) =>
            {
                return true;
            }
            Some(Outcome::Answered(answer)) if !answer.bond => {
                servers.servers.lock().note_bond_refused(self.at, now);
            }
            // Only this session pauses: connections over other links may still get a bond.
            _ => *self.silent_until.lock() = Some(now + ASIDE),
        }
        false
    }
}

impl fmt::Debug for ServicePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServicePort").field(&self.at).finish()
    }
}

impl TakenConnection {
    /// Resets the connection. Nothing was sent on it, so no service has begun work for it.
    fn let_go(mut self) {
        self.stream.reset(ResetCode::Aborted);
    }
}

/// Returns whether the server may soon pass the connection to the service, because nothing was sent
/// on it since `since`. Hawser may then send nothing of its own on it. The process may have been
/// descheduled for long.
fn is_stale(since: KernelTime) -> bool {
    kernel_time().since(since) > MAX_SILENCE
}

/// A quarter of the time for which a server waits for the first bytes (protocol §16).
const MAX_SILENCE: Duration = Duration::from_millis(50);
/// Time for the handshake of the session.
const GREETING: Duration = Duration::from_secs(5);
/// A session that begins takes two round trips more than an ordinary connection.
const HEAD_START: Duration = Duration::from_secs(1);
