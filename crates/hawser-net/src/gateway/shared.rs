//! What the tasks of a gateway share.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hawser_types::{ByteCount, SessionId};
use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::association::Associations;
use super::config::{Admission, GatewayConfig};
use super::half_open::HalfOpen;
use super::probe::Probing;
use super::shares::Shares;
use crate::congestion::Congestion;
use crate::driver::Driver;
use crate::identity::PublicKey;
use crate::read_memory::ReadMemory;
use crate::session::SessionHandle;
use crate::sign_of_life::oldest_silent;
use crate::stream::BondStream;
use crate::tls::TlsServer;

pub(super) struct Shared {
    pub(super) config: GatewayConfig,
    pub(super) congestion: Congestion,
    /// What the channels of all sessions read into.
    pub(super) reading: ReadMemory,
    pub(super) admission: Arc<dyn Admission>,
    pub(super) tls: TlsServer,
    sessions: Mutex<HashMap<SessionId, Entry>>,
    /// Locked after the sessions.
    shares: Mutex<Shares>,
    /// True once no session may begin any more; changes under the lock of the sessions.
    pub(super) closed: AtomicBool,
    pub(super) half_open: HalfOpen,
    /// Clients whose sessions are asked for a sign of life.
    probing: Probing,
    pub(super) incoming: mpsc::Sender<Incoming>,
    pub(super) arrivals: mpsc::Sender<IncomingSession>,
    /// What the application has asked for first; sessions wait until it has.
    pub(super) hand_over: watch::Sender<Option<HandOver>>,
    counters: Mutex<GatewayCounters>,
    /// Sessions that have begun so far.
    pub(super) begun: watch::Sender<u64>,
    /// The UDP port, where there is one.
    pub(super) associations: OnceLock<Associations>,
    /// Bytes that associations took when that was last added up.
    held_by_associations: AtomicU64,
}

pub(super) struct Entry {
    pub(super) driver: Driver,
    pub(super) peer: PublicKey,
    pub(super) remote: SocketAddr,
    pub(super) begun: Instant,
    /// Its client was struck off the list, and the session is about to end.
    pub(super) revoked: bool,
}

/// A stream that a client opened.
#[derive(Debug)]
pub struct Incoming {
    /// The stream; [`BondStream::opening`] is what the client said.
    pub stream: BondStream,
    /// The client.
    pub peer: PublicKey,
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

/// What a gateway gives to its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// The streams that clients open, of all sessions alike.
    Streams,
    /// Sessions, which have their streams themselves.
    Sessions,
}

/// Where what comes is handed to the application.
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
    /// Connections that said nothing in time.
    pub timed_out: u64,
    /// Connections displaced and sessions turned away by a limit.
    pub limited: u64,
}

impl Shared {
    /// A gateway without sessions.
    pub(super) fn new(
        config: GatewayConfig,
        congestion: Congestion,
        admission: Arc<dyn Admission>,
        tls: TlsServer,
        senders: Senders,
    ) -> Self {
        Self {
            half_open: HalfOpen::new(config.limits),
            reading: ReadMemory::new(config.limits.reading()),
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
            associations: OnceLock::new(),
            held_by_associations: AtomicU64::new(0),
        }
    }

    /// The memory that associations took when that was last added up.
    pub(super) fn held_by_associations(&self) -> ByteCount {
        ByteCount::new(self.held_by_associations.load(Ordering::Relaxed))
    }

    /// Associations take that much memory now.
    pub(super) fn note_associations(&self, held: ByteCount) {
        self.held_by_associations
            .store(held.as_u64(), Ordering::Relaxed);
    }

    /// The application asks for `wanted`: the first such question decides. Whether it gets that.
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
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for one more session of `peer`, if its limits leave none: a client that was
    /// restarted has sessions that no link leads to, which would live on for a while.
    pub(super) fn make_room(
        &self,
        sessions: &mut HashMap<SessionId, Entry>,
        peer: &PublicKey,
    ) -> bool {
        if self.has_room(sessions, peer) {
            return true;
        }
        let of_peer = sessions.iter().filter(|(_, entry)| entry.peer == *peer);
        let left = of_peer.filter(|(_, entry)| entry.driver.channels().is_empty());
        let oldest = left.min_by_key(|(_, entry)| entry.begun).map(|(id, _)| *id);
        let oldest = oldest.and_then(|id| sessions.remove(&id));
        oldest.map(|entry| entry.driver.abort()).is_some()
    }

    /// Ends the oldest session of `peer` that gives no sign of life, if the limits leave no room
    /// for one more. After a power cut a client's old session is silent, but its connections have
    /// not failed yet. A client waits here once; of several attempts the others go on at once.
    pub(super) async fn displace_silent(&self, peer: &PublicKey) {
        let Some(_alone) = self.probing.begin(*peer) else {
            return;
        };
        let own: Vec<(Instant, Driver)> = {
            let sessions = self.lock_sessions();
            let of_peer = || sessions.values().filter(|entry| entry.peer == *peer);
            let has_left = |entry: &Entry| entry.driver.channels().is_empty();
            if self.has_room(&sessions, peer) || of_peer().any(has_left) {
                return;
            }
            let mut own: Vec<_> = of_peer().map(|it| (it.begun, it.driver.clone())).collect();
            own.sort_by_key(|(begun, _)| *begun);
            own
        };
        let drivers: Vec<Driver> = own.into_iter().map(|(_, driver)| driver).collect();
        if let Some(silent) = oldest_silent(&drivers, SIGN_OF_LIFE).await {
            tracing::info!(session = %silent.id(), %peer, "a silent session makes room");
            self.lock_sessions().remove(&silent.id());
            silent.abort();
        }
    }

    fn has_room(&self, sessions: &HashMap<SessionId, Entry>, peer: &PublicKey) -> bool {
        let limits = &self.config.limits;
        let of_peer = sessions.values().filter(|entry| entry.peer == *peer);
        sessions.len() < limits.sessions && of_peer.count() < limits.sessions_per_client
    }

    pub(super) fn lock_sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Entry>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lock_shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut GatewayCounters)) {
        count(&mut self.counters.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// A round trip of the slowest links, and a retransmission.
const SIGN_OF_LIFE: Duration = Duration::from_secs(2);
/// Time in which a client that is not admitted is told so.
pub(super) const REFUSED_PATIENCE: Duration = Duration::from_millis(500);
