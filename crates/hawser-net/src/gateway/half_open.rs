//! The places of connections that have not proved who they are.
//!
//! A newcomer always gets a place: where none is free, it displaces another connection. So idle
//! connections never keep a client out. The displaced one belongs to the network, and there to the
//! source, with the most places: whoever takes many displaces itself. Among a source's connections
//! the oldest goes, once it had time for a handshake; among younger ones chance decides, so that
//! under a flood some finish.
//!
//! A connection that joins a live session moves to a place of that session, which strangers can't
//! take: these need the session's id and a number that was granted to it.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hawser_types::SessionId;
use tokio::sync::Notify;

use super::limits::AcceptLimits;

/// Gives places to connections that have not proved who they are.
#[derive(Clone, Debug)]
pub(super) struct HalfOpen {
    limits: AcceptLimits,
    places: Arc<Mutex<Places>>,
}

/// A place among the half-open connections; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    half_open: HalfOpen,
    number: u64,
    displaced: Arc<Notify>,
}

impl HalfOpen {
    pub(super) fn new(limits: AcceptLimits) -> Self {
        Self {
            limits,
            places: Arc::default(),
        }
    }

    /// Returns a place for a connection from `address`, and whether another one lost its place for
    /// that. `now` tells who had time for a handshake.
    pub(super) fn enter(&self, address: IpAddr, now: Instant) -> (Place, bool) {
        let holder = Holder {
            source: source_of(address),
            network: network_of(address),
            since: now,
            displaced: Arc::default(),
        };
        let mut places = self.lock();
        let displaces = places.make_room(&self.limits, &holder);
        let place = Place {
            half_open: self.clone(),
            number: places.next,
            displaced: Arc::clone(&holder.displaced),
        };
        places.add(holder);
        (place, displaces)
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until a newcomer takes the place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }

    /// Moves the connection to one of the places for joins of `session`, while one is free. No
    /// newcomer displaces it there.
    pub(super) fn join(&self, session: SessionId) {
        let most = self.half_open.limits.half_open;
        let mut places = self.half_open.lock();
        let of_session = places.joins.values().filter(|it| **it == session).count();
        if places.joins.len() < most
            && of_session < JOINS_PER_SESSION
            && places.remove(self.number).is_some()
        {
            places.joins.insert(self.number, session);
        }
    }

    /// Frees the place: the connection has proved who it is.
    pub(super) fn leave(&self) {
        let mut places = self.half_open.lock();
        places.remove(self.number);
        places.joins.remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

#[derive(Debug, Default)]
struct Places {
    next: u64,
    /// Who holds a place that a newcomer may take, the oldest first.
    holders: BTreeMap<u64, Holder>,
    by_source: HashMap<IpAddr, usize>,
    by_network: HashMap<IpAddr, usize>,
    /// Connections that join, with their sessions.
    joins: BTreeMap<u64, SessionId>,
    chance: RandomState,
}

#[derive(Debug)]
struct Holder {
    source: IpAddr,
    network: IpAddr,
    since: Instant,
    displaced: Arc<Notify>,
}

impl Places {
    fn add(&mut self, holder: Holder) {
        *self.by_source.entry(holder.source).or_default() += 1;
        *self.by_network.entry(holder.network).or_default() += 1;
        self.holders.insert(self.next, holder);
        self.next += 1;
    }

    fn remove(&mut self, number: u64) -> Option<Holder> {
        let holder = self.holders.remove(&number)?;
        take_one(&mut self.by_source, holder.source);
        take_one(&mut self.by_network, holder.network);
        Some(holder)
    }

    /// Displaces a connection where the newcomer would exceed a limit; returns whether it did.
    fn make_room(&mut self, limits: &AcceptLimits, newcomer: &Holder) -> bool {
        let of = |counts: &HashMap<IpAddr, usize>, group| counts.get(group).copied().unwrap_or(0);
        let per_network = (limits.half_open / 2).max(limits.half_open_per_source);
        let victim = if of(&self.by_source, &newcomer.source) >= limits.half_open_per_source {
            self.victim(newcomer.since, |it| it.source == newcomer.source)
        } else if of(&self.by_network, &newcomer.network) >= per_network {
            self.victim(newcomer.since, |it| it.network == newcomer.network)
        } else if self.holders.len() >= limits.half_open {
            self.victim(newcomer.since, |_| true)
        } else {
            None
        };
        let displaced = victim.and_then(|number| self.remove(number));
        // A connection that does not wait yet finds that out when it does.
        displaced.map(|it| it.displaced.notify_one()).is_some()
    }

    /// Chooses among those that are `meant`: one of the network and source with the most places.
    fn victim(&self, now: Instant, meant: impl Fn(&Holder) -> bool) -> Option<u64> {
        let weight = |it: &Holder| {
            let of = |counts: &HashMap<IpAddr, usize>, group| counts.get(group).copied();
            (
                of(&self.by_network, &it.network),
                of(&self.by_source, &it.source),
            )
        };
        let meant = || self.holders.iter().filter(|(_, it)| meant(it));
        let heaviest = meant().map(|(_, it)| weight(it)).max()?;
        let mut candidates = meant().filter(|(_, it)| weight(it) == heaviest);
        let count = candidates.clone().count();
        let (oldest, holder) = candidates.clone().next()?;
        if now.saturating_duration_since(holder.since) >= HANDSHAKE_TIME {
            return Some(*oldest);
        }
        let random = self.chance.hash_one(self.next) as usize % count;
        candidates.nth(random).map(|(number, _)| *number)
    }
}

fn take_one(counts: &mut HashMap<IpAddr, usize>, group: IpAddr) {
    if let Some(count) = counts.get_mut(&group) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&group);
        }
    }
}

/// One customer's addresses: an IPv4 address, or an IPv6 /64.
fn source_of(address: IpAddr) -> IpAddr {
    masked(address, 32, 64)
}

/// One network's addresses: an IPv4 /24, or an IPv6 /48.
fn network_of(address: IpAddr) -> IpAddr {
    masked(address, 24, 48)
}

fn masked(address: IpAddr, v4: u32, v6: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let prefix = u32::from(address) & (u32::MAX << (32 - v4));
            IpAddr::V4(prefix.into())
        }
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & (u128::MAX << (128 - v6));
            IpAddr::V6(prefix.into())
        }
    }
}

/// Enough for a handshake over a slow link: two round trips of 500 ms.
const HANDSHAKE_TIME: Duration = Duration::from_secs(1);
/// A client joins over all its links at once after an outage.
const JOINS_PER_SESSION: usize = 16;

#[cfg(test)]
mod tests;
