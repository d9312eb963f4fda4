//! State that the tasks of a gateway share.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hawser_types::{Budget, ByteCount, Charge, SessionId};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tracing::Span;

use super::accounts::{Accounts, Holder};
use super::association::Associations;
use super::config::{Admission, GatewayConfig};
use super::further_links::Further;
use super::half_open::HalfOpen;
use super::probe::Probing;
use super::shares::Shares;
use crate::congestion::Congestion;
use crate::driver::Driver;
use crate::session::SessionHandle;
use crate::session_budgets::SessionBudgets;
use crate::sign_of_life::oldest_silent;
use crate::spans;
use crate::stream::BondStream;
use hawser_keys::identity::PublicKey;
use hawser_seal::TlsServer;
use hawser_types::{network_of, source_of};

pub(super) struct GatewayState {
    pub(super) config: GatewayConfig,
    pub(super) congestion: Congestion,
    /// The budgets of the clients.
    pub(super) accounts: Accounts,
    pub(super) admission: Arc<dyn Admission>,
    pub(super) tls: TlsServer,
    pub(super) sessions: Mutex<HashMap<SessionId, Entry>>,
    /// Locked after the sessions.
    pub(super) shares: Mutex<Shares>,
    /// True once no session may begin any more; changes under the lock of the sessions.
    pub(super) closed: AtomicBool,
    pub(super) half_open: HalfOpen,
    /// Clients whose sessions are asked for a sign of life.
    probing: Probing,
    pub(super) incoming: mpsc::Sender<Incoming>,
    pub(super) arrivals: mpsc::Sender<IncomingSession>,
    /// The application's first request; sessions wait for it.
    pub(super) hand_over: watch::Sender<Option<HandOver>>,
    counters: Mutex<GatewayCounters>,
    /// Number of sessions that were refused for a limit.
    pub(super) refused_sessions: AtomicU64,
    /// Number of sessions that have begun so far.
    pub(super) begun: watch::Sender<u64>,
    /// The gateway is about to be replaced.
    pub(super) going_away: watch::Sender<bool>,
    /// The UDP port, if there is one.
    pub(super) associations: OnceLock<Associations>,
    /// The links that connections to clients may begin on, if that is configured.
    pub(super) further: OnceLock<Further>,
    /// Bytes that associations held when they were last added up.
    held_by_associations: AtomicU64,
}

pub(super) struct Entry {
    pub(super) driver: Driver,
    pub(super) peer: PublicKey,
    pub(super) ends: Ends,
    pub(super) begun: Instant,
    /// Time when a stream was last seen in the session.
    pub(super) used: Instant,
    /// The client was revoked, and the session is about to end.
    pub(super) revoked: bool,
    _charge: Charge,
}

impl Entry {
    /// The entry of a session that begins now.
    pub(super) fn new(driver: Driver, peer: PublicKey, ends: Ends, charge: Charge) -> Self {
        let now = Instant::now();
        Self {
            driver,
            peer,
            ends,
            begun: now,
            used: now,
            revoked: false,
            _charge: charge,
        }
    }
}

/// A stream that a client opened.
#[derive(Debug)]
pub struct Incoming {
    /// The stream; [`BondStream::opening`] is the client's metadata.
    pub stream: BondStream,
    /// The client.
    pub peer: PublicKey,
    /// Both ends of the session's first connection.
    pub ends: Ends,
    /// The client's address and port on the TCP channel over which the client opened the stream;
    /// `None` if that channel is gone, or is an association.
    pub from: Option<SocketAddr>,
    /// The client's budget: memory that is kept for the stream is charged to it.
    pub account: Budget,
}

/// Both ends of the connection that a session began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The client's address and port. For a caller that another gateway has passed on, this is only
    /// a name for the log.
    pub remote: SocketAddr,
    /// The address and port of this machine that the connection came to.
    pub local: SocketAddr,
}

/// A session that a client began and that was not handed out yet.
#[derive(Debug)]
pub struct IncomingSession {
    /// The session.
    pub session: SessionHandle,
    /// The client.
    pub peer: PublicKey,
    /// The address that the session began from.
    pub remote: SocketAddr,
}

/// The kind of items that a gateway hands to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// The streams that clients open, of all sessions alike.
    Streams,
    /// Sessions, which hand out their streams themselves.
    Sessions,
}

/// The queues to the application.
pub(super) struct Senders {
    pub(super) incoming: mpsc::Sender<Incoming>,
    pub(super) arrivals: mpsc::Sender<IncomingSession>,
}

/// Counts of a gateway's connections and sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GatewayCounters {
    /// Connections accepted.
    pub connections: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Channels that joined.
    pub joins: u64,
    /// Clients enrolled.
    pub enrolments: u64,
    /// TLS handshakes that failed: strangers, mostly.
    pub handshakes_failed: u64,
    /// Joins that were forged, replayed or came too late.
    pub joins_refused: u64,
    /// Connections that began with neither a handshake nor a join.
    pub garbage: u64,
    /// Connections that sent nothing in time.
    pub timed_out: u64,
    /// Connections displaced and sessions turned away by a limit.
    pub limited: u64,
}

impl GatewayState {
    /// A gateway without sessions.
    pub(super) fn new(
        config: GatewayConfig,
        congestion: Congestion,
        admission: Arc<dyn Admission>,
        tls: TlsServer,
        senders: Senders,
    ) -> Self {
        let accounts = Accounts::new(config.limits.memory);
        Self {
            half_open: HalfOpen::new(config.limits),
            accounts,
            probing: Probing::default(),
            config,
            congestion,
            admission,
            tls,
            sessions: Mutex::default(),
            begun: watch::Sender::default(),
            shares: Mutex::default(),
            closed: AtomicBool::new(false),
            incoming: senders.incoming,
            arrivals: senders.arrivals,
            hand_over: watch::Sender::new(None),
            counters: Mutex::default(),
            refused_sessions: AtomicU64::new(0),
            going_away: watch::Sender::new(false),
            associations: OnceLock::new(),
            further: OnceLock::new(),
            held_by_associations: AtomicU64::new(0),
        }
    }

    /// The memory that associations held when it was last added up.
    pub(super) fn held_by_associations(&self) -> ByteCount {
        ByteCount::new(self.held_by_associations.load(Ordering::Relaxed))
    }

    /// Notes how much memory associations hold.
    pub(super) fn note_associations(&self, held: ByteCount) {
        self.held_by_associations
            .store(held.as_u64(), Ordering::Relaxed);
    }

    /// Handles the application's request for `wanted`; the first request decides. True if granted.
    pub(super) fn hands_over(&self, wanted: HandOver) -> bool {
        self.hand_over.send_if_modified(|decided| {
            let first = decided.is_none();
            decided.get_or_insert(wanted);
            first
        });
        *self.hand_over.borrow() == Some(wanted)
    }

    /// Counts since the gateway started.
    pub(super) fn counters(&self) -> GatewayCounters {
        *self.counters.lock()
    }

    /// Makes room for one more session of `peer`, if the limits leave none: a client that was
    /// restarted has sessions without a link, which would live on for a while.
    pub(super) fn make_room(
        &self,
        sessions: &mut HashMap<SessionId, Entry>,
        peer: &PublicKey,
        from: IpAddr,
    ) -> bool {
        if self.has_room(sessions, peer, from) {
            return true;
        }
        let is_own = |entry: &Entry| entry.peer == *peer || self.shares_source(entry, from);
        let own = sessions.iter().filter(|(_, entry)| is_own(entry));
        let left = own.filter(|(_, entry)| entry.driver.channels().is_empty());
        let oldest = left.min_by_key(|(_, entry)| entry.begun).map(|(id, _)| *id);
        let oldest = oldest.and_then(|id| sessions.remove(&id));
        oldest.map(|entry| entry.driver.abort()).is_some()
    }

    /// Assigns a session to `peer`. The session began with the key of an invite, and so did not
    /// count among the client's sessions. Returns false if the client has too many sessions then.
    pub(super) fn give(&self, session: SessionId, peer: PublicKey) -> bool {
        let mut sessions = self.sessions.lock();
        let own = sessions
            .iter()
            .filter(|(id, it)| **id != session && it.peer == peer);
        if own.count() >= self.config.limits.sessions_per_client {
            return false;
        }
        if let Some(entry) = sessions.get_mut(&session) {
            entry.peer = peer;
        }
        true
    }

    /// Ends the oldest session of `peer` that gives no sign of life, if the limits leave no room
    /// for one more. After a power cut a client's old session is silent, but its connections have
    /// not failed yet. Only one attempt of a client waits here; its other attempts go on at once.
    pub(super) async fn displace_silent(&self, peer: &PublicKey, from: IpAddr) {
        let Some(_alone) = self.probing.begin(*peer) else {
            return;
        };
        let own: Vec<(Instant, Driver)> = {
            let sessions = self.sessions.lock();
            let of_peer = || sessions.values().filter(|entry| entry.peer == *peer);
            let has_left = |entry: &Entry| entry.driver.channels().is_empty();
            if self.has_room(&sessions, peer, from) || of_peer().any(has_left) {
                return;
            }
            let mut own: Vec<_> = of_peer().map(|it| (it.begun, it.driver.clone())).collect();
            own.sort_by_key(|(begun, _)| *begun);
            own
        };
        let drivers: Vec<Driver> = own.into_iter().map(|(_, driver)| driver).collect();
        if let Some(silent) = oldest_silent(&drivers, SIGN_OF_LIFE).await {
            let span = silent.span();
            span.in_scope(|| tracing::info!(%peer, "evicting silent session"));
            self.sessions.lock().remove(&silent.id());
            silent.abort();
        }
    }

    fn has_room(
        &self,
        sessions: &HashMap<SessionId, Entry>,
        peer: &PublicKey,
        from: IpAddr,
    ) -> bool {
        let limits = &self.config.limits;
        let count =
            |is_one: &dyn Fn(&Entry) -> bool| sessions.values().filter(|it| is_one(it)).count();
        let network = network_of(from);
        sessions.len() < limits.sessions
            && count(&|it| it.peer == *peer) < limits.sessions_per_client
            && (limits.sessions_per_source == usize::MAX
                || count(&|it| self.shares_source(it, from)) < limits.sessions_per_source)
            && (limits.sessions_per_network == usize::MAX
                || count(&|it| network_of(it.ends.remote.ip()) == network)
                    < limits.sessions_per_network)
    }

    /// Makes the span of a client that has proved this key. The span has a name once the client is
    /// enrolled.
    pub(super) fn span_of(&self, key: &PublicKey) -> Span {
        let span = spans::client();
        if self.admission.is_enrolled(key) {
            self.name_client(&span, key);
        }
        span
    }

    /// Gives the span of a client its name.
    pub(super) fn name_client(&self, span: &Span, key: &PublicKey) {
        spans::name_client(span, self.admission.name(key).as_deref(), key);
    }

    /// The budgets of a session that a client begins from `from`. Where keys cost nothing, the
    /// address tells clients apart.
    pub(super) fn budgets(&self, peer: &PublicKey, from: IpAddr) -> SessionBudgets {
        let client = if self.config.limits.sessions_per_source < usize::MAX {
            Holder::Address(from)
        } else {
            Holder::Key(*peer.as_bytes())
        };
        self.accounts.budgets_of(client)
    }

    /// Notes that a stream was opened in a session.
    pub(super) fn note_used(&self, id: SessionId) {
        if let Some(entry) = self.sessions.lock().get_mut(&id) {
            entry.used = Instant::now();
        }
    }

    /// True if a session counts for the limit of the source of `from`; false without such a limit.
    fn shares_source(&self, entry: &Entry, from: IpAddr) -> bool {
        self.config.limits.sessions_per_source < usize::MAX
            && source_of(entry.ends.remote.ip()) == source_of(from)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut GatewayCounters)) {
        count(&mut self.counters.lock());
    }

    /// Counts a session that is refused for a limit. Logs the 1st, 2nd, 4th, 8th … as a warning: a
    /// stranger can cause any number.
    pub(super) fn tell_of_limit(&self, peer: PublicKey, problem: &str) {
        self.count(|counters| counters.limited += 1);
        let count = self.refused_sessions.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%peer, count, problem, "a session is refused");
        } else {
            tracing::debug!(%peer, count, problem, "a session is refused");
        }
    }
}

/// A round trip of the slowest links, and a retransmission.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Time in which a client that is not admitted is told so.
pub(super) const REFUSED_PATIENCE: Duration = Duration::from_millis(500);
