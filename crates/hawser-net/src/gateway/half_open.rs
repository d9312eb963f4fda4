//! The places of connections that have not proved who they are.
//!
//! Idle connections never keep a client out. A newcomer whose places are all taken looks at the
//! network, and there at the source, with the most places. It displaces that source's oldest
//! connection if this had time for a handshake; or else any of its connections if the newcomer's
//! own network or source would still have fewer places. So a source of many connections displaces
//! its own. Otherwise the newcomer waits in line: when a thousand clients come back at once after a
//! restart, none of them stops another's handshake. If the line is full as well, which is a flood,
//! newcomers displace younger connections by chance, so that some handshakes finish.
//!
//! A connection that joins a live session moves to a place of that session, which strangers can't
//! take: a join needs the session's id and a number that was granted to the session.

mod crowd;

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hawser_types::{Budget, ByteCount, Charge, SessionId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout;

use self::crowd::{Crowd, Group, Guest};
use super::limits::AcceptLimits;
use hawser_keys::identity::PublicKey;
use hawser_types::{network_of, source_of};

/// Gives places to connections that have not proved who they are.
#[derive(Clone, Debug)]
pub(crate) struct HalfOpen {
    limits: AcceptLimits,
    /// Memory charged for strangers, apart from clients: the number of places limits it.
    account: Budget,
    places: Arc<Mutex<Places>>,
}

/// Where a connection comes from, as far as that is known before it proves anything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// An address.
    Address(IpAddr),
    /// A gateway that has passed on a caller, and says that the caller has this key.
    Relayed(PublicKey),
}

/// A place among the half-open connections, or in the line for one; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct HalfOpenSlot {
    half_open: HalfOpen,
    number: u64,
    ready: Arc<Notify>,
    displaced: Arc<Notify>,
    _charge: Charge,
}

impl HalfOpen {
    pub(crate) fn new(limits: AcceptLimits) -> Self {
        Self {
            limits,
            account: Budget::unbounded(),
            places: Arc::default(),
        }
    }

    /// Returns a place for a connection from `origin`, or one in the line. `now` decides which
    /// connections had time for a handshake.
    pub(crate) fn enter(&self, origin: Origin, now: Instant) -> HalfOpenSlot {
        let guest = Guest {
            source: origin.source(),
            network: origin.network(),
            since: now,
            ready: Arc::default(),
            displaced: Arc::default(),
        };
        let mut places = self.places.lock();
        let place = HalfOpenSlot {
            half_open: self.clone(),
            number: places.next,
            ready: Arc::clone(&guest.ready),
            displaced: Arc::clone(&guest.displaced),
            _charge: self.account.noted(WAITING_CHARGE),
        };
        places.welcome(&self.limits, guest);
        place
    }

    /// Memory charged for connections that have not proved who they are.
    pub(super) fn held(&self) -> ByteCount {
        self.account.held()
    }
}

impl HalfOpenSlot {
    /// Waits until this is a place among the half-open connections.
    pub(super) async fn ready(&self) {
        while !self.has_place(Instant::now()) {
            // Meanwhile other connections may have had their time for a handshake.
            let _ = timeout(LOOK_AGAIN, self.ready.notified()).await;
        }
    }

    fn has_place(&self, now: Instant) -> bool {
        let limits = &self.half_open.limits;
        self.half_open
            .places
            .lock()
            .has_place(limits, self.number, now)
    }

    /// Does `work` while the connection has its place. Returns `None` if the connection gets no
    /// place within `patience`, or a newcomer takes the place.
    pub(crate) async fn hold<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let working = async {
            timeout(patience, self.ready()).await.ok()?;
            let _charge = self.half_open.account.noted(HANDSHAKE_CHARGE);
            Some(work.await)
        };
        tokio::select! {
            done = working => done,
            () = self.displaced() => None,
        }
    }

    /// Waits until a newcomer takes the place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Moves the connection to one of the places for joins of `session`, while one is free. No
    /// newcomer displaces it there.
    pub(super) fn join(&self, session: SessionId) {
        let limits = &self.half_open.limits;
        let mut places = self.half_open.places.lock();
        let of_session = places.joins.values().filter(|it| **it == session).count();
        if places.joins.len() < limits.half_open
            && of_session < JOINS_PER_SESSION
            && places.remove(limits, self.number)
        {
            places.joins.insert(self.number, session);
        }
    }

    /// Frees the place: the connection has proved who it is.
    pub(super) fn leave(&self) {
        let mut places = self.half_open.places.lock();
        places.remove(&self.half_open.limits, self.number);
        places.joins.remove(&self.number);
    }
}

impl Drop for HalfOpenSlot {
    fn drop(&mut self) {
        self.leave();
    }
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    /// Connections with a place that a newcomer may take.
    holders: Crowd,
    /// Connections that wait for a place.
    line: Crowd,
    /// Connections that join, with their sessions.
    joins: BTreeMap<u64, SessionId>,
    chance: RandomState,
}

/// Whether there is room for a connection.
enum Room {
    Free,
    /// There is room if this connection goes.
    Displacing(u64),
    /// No room: none of these connections holds more than its share, or had time for a handshake.
    Wait(Vec<u64>),
}

impl Places {
    /// Gives a newcomer a place, perhaps that of a displaced connection, or one in the line.
    fn welcome(&mut self, limits: &AcceptLimits, guest: Guest) {
        let number = self.next;
        self.next += 1;
        let victim = match self.room(limits, &guest, guest.since) {
            Room::Free => None,
            Room::Displacing(victim) => Some(victim),
            Room::Wait(_) if self.line.len() < limits.half_open * LINE => {
                self.line.add(number, guest);
                return;
            }
            Room::Wait(rivals) => self.one_of(&rivals),
        };
        self.holders.add(number, guest);
        if let Some(victim) = victim {
            self.displace(victim);
        }
    }

    /// True if the connection has a place by now.
    fn has_place(&mut self, limits: &AcceptLimits, number: u64, now: Instant) -> bool {
        // A freed place is passed on at once: only connections whose time is over make room here.
        let is_ripe = |it: &Guest| now.saturating_duration_since(it.since) >= HANDSHAKE_TIME;
        if self.holders.first(is_ripe).is_none() {
            return self.holders.get(number).is_some();
        }
        match self.line.get(number).map(|it| self.room(limits, it, now)) {
            Some(Room::Free) => self.move_up(number, now),
            Some(Room::Displacing(victim)) => {
                self.move_up(number, now);
                self.displace(victim);
            }
            Some(Room::Wait(_)) | None => {}
        }
        self.holders.get(number).is_some()
    }

    /// Decides whether there is room for a connection.
    fn room(&self, limits: &AcceptLimits, guest: &Guest, now: Instant) -> Room {
        let holders = &self.holders;
        let per_network = (limits.half_open / 2).max(limits.half_open_per_source);
        let rivals = if holders.of_source(guest) >= limits.half_open_per_source {
            holders.heaviest(|it| it.source == guest.source)
        } else if holders.of_network(guest) >= per_network {
            holders.heaviest(|it| it.network == guest.network)
        } else if holders.len() >= limits.half_open {
            holders.heaviest(|_| true)
        } else {
            return Room::Free;
        };
        let oldest = rivals.first().copied();
        let Some((oldest, holder)) = oldest.and_then(|it| Some((it, holders.get(it)?))) else {
            return Room::Wait(rivals);
        };
        let is_lighter = if guest.network == holder.network {
            holders.of_source(guest) + 1 < holders.of_source(holder)
        } else {
            holders.of_network(guest) + 1 < holders.of_network(holder)
        };
        if now.saturating_duration_since(holder.since) >= HANDSHAKE_TIME {
            Room::Displacing(oldest)
        } else if is_lighter && let Some(victim) = self.one_of(&rivals) {
            Room::Displacing(victim)
        } else {
            Room::Wait(rivals)
        }
    }

    /// Returns one of the numbers, by chance.
    fn one_of(&self, numbers: &[u64]) -> Option<u64> {
        let random = self.chance.hash_one(self.next) as usize;
        numbers.get(random % numbers.len().max(1)).copied()
    }

    /// Takes the place of a connection away.
    fn displace(&mut self, victim: u64) {
        if let Some(guest) = self.holders.remove(victim) {
            // The permit stays until the connection waits for it.
            guest.displaced.notify_one();
        }
    }

    /// Frees a place, which goes to the first connection in the line that may have it. Returns
    /// whether a holder had the place.
    fn remove(&mut self, limits: &AcceptLimits, number: u64) -> bool {
        self.line.remove(number);
        let is_freed = self.holders.remove(number).is_some();
        let now = Instant::now();
        let fits = |guest: &Guest| matches!(self.room(limits, guest, now), Room::Free);
        if is_freed && let Some(next) = self.line.first(fits) {
            self.move_up(next, now);
        }
        is_freed
    }

    /// Moves a connection from the line to a place.
    fn move_up(&mut self, number: u64, now: Instant) {
        if let Some(guest) = self.line.remove(number) {
            guest.ready.notify_one();
            self.holders.add(
                number,
                Guest {
                    since: now,
                    ..guest
                },
            );
        }
    }
}

impl Origin {
    /// One customer's addresses (an IPv4 address, or an IPv6 /64), or one caller.
    fn source(self) -> Group {
        match self {
            Self::Address(address) => Group::Addresses(source_of(address)),
            Self::Relayed(key) => Group::Caller(key),
        }
    }

    /// One network's addresses (an IPv4 /24, or an IPv6 /48), or all callers.
    fn network(self) -> Group {
        match self {
            Self::Address(address) => Group::Addresses(network_of(address)),
            Self::Relayed(_) => Group::Callers,
        }
    }
}

/// Enough for a handshake over a slow link: two round trips of 500 ms.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);
/// A client joins over all its links at once after an outage.
const JOINS_PER_SESSION: usize = 16;
/// Charge for a connection that waits or has a place, and further charge for its handshake or join;
/// see docs/design/charges.md.
const WAITING_CHARGE: ByteCount = ByteCount::from_kib(4);
const HANDSHAKE_CHARGE: ByteCount = ByteCount::from_kib(32);
/// Most connections in the line, as a multiple of the places.
const LINE: usize = 4;
/// Interval at which a waiting connection looks for others that had time for a handshake.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
