//! Connections, counted by where they come from.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use hawser_keys::identity::PublicKey;

/// The common origin of connections that share a limit of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Group {
    /// A range of addresses, by its first one.
    Addresses(IpAddr),
    /// The key of a caller that came by a gateway.
    Caller(PublicKey),
    /// All callers that came by a gateway.
    Callers,
}

/// A connection that has a place, or waits for one.
#[derive(Debug)]
pub(super) struct Guest {
    /// The customer that the connection comes from.
    pub(super) source: Group,
    /// The network that the connection comes from.
    pub(super) network: Group,
    /// Time since which the connection has its place.
    pub(super) since: Instant,
    /// Notified when the connection gets a place.
    pub(super) ready: Arc<Notify>,
    /// Notified when the connection loses its place.
    pub(super) displaced: Arc<Notify>,
}

/// Connections by number, with how many come from each source and network.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// The oldest have the smallest numbers.
    guests: BTreeMap<u64, Guest>,
    by_source: HashMap<Group, usize>,
    by_network: HashMap<Group, usize>,
}

impl Crowd {
    pub(super) fn add(&mut self, number: u64, guest: Guest) {
        *self.by_source.entry(guest.source).or_default() += 1;
        *self.by_network.entry(guest.network).or_default() += 1;
        self.guests.insert(number, guest);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Guest> {
        let guest = self.guests.remove(&number)?;
        take_one(&mut self.by_source, guest.source);
        take_one(&mut self.by_network, guest.network);
        Some(guest)
    }

    pub(super) fn get(&self, number: u64) -> Option<&Guest> {
        self.guests.get(&number)
    }

    pub(super) fn len(&self) -> usize {
        self.guests.len()
    }

    /// Returns the number of connections from the guest's source.
    pub(super) fn of_source(&self, guest: &Guest) -> usize {
        self.by_source.get(&guest.source).copied().unwrap_or(0)
    }

    /// Returns the number of connections from the guest's network.
    pub(super) fn of_network(&self, guest: &Guest) -> usize {
        self.by_network.get(&guest.network).copied().unwrap_or(0)
    }

    /// Returns the first connection that `is_meant`.
    pub(super) fn first(&self, is_meant: impl Fn(&Guest) -> bool) -> Option<u64> {
        let mut guests = self.guests.iter();
        guests
            .find(|(_, it)| is_meant(it))
            .map(|(number, _)| *number)
    }

    /// Returns those of the `meant` connections whose network, and there whose source, has the most
    /// connections; the oldest first.
    pub(super) fn heaviest(&self, meant: impl Fn(&Guest) -> bool) -> Vec<u64> {
        let weight = |it: &Guest| (self.of_network(it), self.of_source(it));
        let meant = || self.guests.iter().filter(|(_, it)| meant(it));
        let Some(most) = meant().map(|(_, it)| weight(it)).max() else {
            return Vec::new();
        };
        let heaviest = meant().filter(|(_, it)| weight(it) == most);
        heaviest.map(|(number, _)| *number).collect()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.guests.is_empty() && self.by_source.is_empty() && self.by_network.is_empty()
    }
}

fn take_one(counts: &mut HashMap<Group, usize>, group: Group) {
    if let Some(count) = counts.get_mut(&group) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&group);
        }
    }
}
