//! Location table: bindings of addresses of record to contacts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

use crate::fields::{CallId, NameAddr, Q};
use crate::message::{HeaderName, Refusal, StatusCode};
use crate::transaction::Flow;

/// One contact of an address of record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The contact with its parameters, but for `q` and `expires`.
    pub contact: NameAddr,
    /// Its preference.
    pub q: Q,
    /// When it expires.
    pub expires: Instant,
    /// When it was set last.
    pub updated: Instant,
    /// Call-ID and CSeq of the request that set it. An older request does not change the binding.
    pub call_id: CallId,
    /// See `call_id`.
    pub cseq: u32,
    /// Path to the contact, nearest hop first (RFC 3327).
    pub path: Vec<NameAddr>,
    /// Instance and link number of the host (RFC 5626): a new contact with both replaces this one.
    pub outbound: Option<(String, u32)>,
    /// Origin of the request that set it.
    pub origin: Origin,
}

impl Binding {
    /// Returns the contact as an answer to REGISTER has it, with `q` and the seconds left.
    #[must_use]
    pub fn to_contact(&self, now: Instant) -> NameAddr {
        let left = self.expires.since(now);
        // Rounded up: an existing binding has time left.
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let mut contact = self.contact.clone();
        contact.params.set("q", &self.q.to_string());
        contact.params.set("expires", &seconds.to_string());
        contact
    }

    /// Returns the origin of the next hop on the path to the contact.
    pub(crate) fn way_back(&self) -> Origin {
        Origin {
            // With a path, the stream belongs to the path's last hop.
            stream: self.origin.stream.filter(|_| self.path.is_empty()),
            ..self.origin
        }
    }

    /// Whether both bind the same contact: by instance and link if both have them, else by URI.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.outbound, &other.outbound) {
            (Some(one), Some(two)) => one == two,
            _ => self.contact.uri.is_equivalent(&other.contact.uri),
        }
    }
}

/// Origin of a request with a correct proof.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Address that the proof was bound to. `None` if an earlier version stored the binding.
    pub address: Option<IpAddr>,
    /// Stream through which the contact is reached while it is open.
    pub stream: Option<Flow>,
}

/// Limits of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationLimits {
    /// Addresses of record.
    pub max_addresses: usize,
    /// Contacts of one address of record.
    pub max_contacts: usize,
    /// Shortest time for which a contact may be registered.
    pub min_expires: Duration,
    /// Longest time. A longer request is shortened to this.
    pub max_expires: Duration,
    /// Time for requests that name none.
    pub default_expires: Duration,
}

impl Default for LocationLimits {
    /// 100,000 addresses with 16 contacts each, for a minute to an hour.
    fn default() -> Self {
        Self {
            max_addresses: 100_000,
            max_contacts: 16,
            min_expires: Duration::from_secs(60),
            max_expires: Duration::from_secs(3600),
            default_expires: Duration::from_secs(3600),
        }
    }
}

/// Table of bindings. Each address of record in it has at least one.
///
/// Change it once, then drain [`Location::poll_change`], and call [`Location::handle_timeout`] at
/// [`Location::poll_timeout`].
#[derive(Debug)]
pub struct Location {
    limits: LocationLimits,
    bindings: BTreeMap<String, Vec<Binding>>,
    /// Number of bindings of all addresses.
    count: usize,
    /// Expiry of the first binding of each address.
    due: BTreeSet<(Instant, String)>,
    /// Addresses whose bindings have changed.
    changed: BTreeSet<String>,
}

impl Location {
    pub(crate) fn new(limits: LocationLimits) -> Self {
        Self {
            limits,
            bindings: BTreeMap::new(),
            count: 0,
            due: BTreeSet::new(),
            changed: BTreeSet::new(),
        }
    }

    /// Returns the bindings of an address of record, the preferred ones first, then the latest.
    #[must_use]
    pub fn lookup(&self, now: Instant, address: &str) -> Vec<Binding> {
        let mut bindings = self.bindings(now, address);
        bindings.sort_by_key(|binding| std::cmp::Reverse((binding.q, binding.updated)));
        bindings
    }

    /// Returns all bindings with their addresses of record, to store them across a restart.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Binding])> {
        let all = self.bindings.iter();
        all.map(|(address, bindings)| (address.as_str(), bindings.as_slice()))
    }

    /// Restores stored bindings. Their times are those of this process's clock; expired ones are
    /// left out.
    ///
    /// # Errors
    /// When the table, or the list of this address, would exceed its limit.
    pub fn restore(
        &mut self,
        now: Instant,
        address: &str,
        mut bindings: Vec<Binding>,
    ) -> Result<(), Refusal> {
        bindings.retain(|binding| binding.expires > now);
        self.set(now, address, bindings)
    }

    /// Removes all bindings of an address of record.
    pub fn remove(&mut self, address: &str) {
        self.put(address, Vec::new());
    }

    /// Returns the bounds of the table.
    #[must_use]
    pub fn limits(&self) -> &LocationLimits {
        &self.limits
    }

    /// Returns how many addresses of record have bindings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Returns how many bindings there are, of all addresses of record.
    #[must_use]
    pub fn binding_count(&self) -> usize {
        self.count
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Returns an address of record whose bindings changed since it was last returned.
    pub fn poll_change(&mut self) -> Option<String> {
        self.changed.pop_first()
    }

    /// Returns the time of the next call to [`Location::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes expired bindings.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, address)) = self.due.first().filter(|(at, _)| *at <= now) {
            let address = address.clone();
            let left = self.bindings(now, &address);
            self.put(&address, left);
        }
    }

    /// Returns the bindings in the order of their registration.
    #[must_use]
    pub fn bindings(&self, now: Instant, address: &str) -> Vec<Binding> {
        let found = self.bindings.get(address).into_iter().flatten();
        let alive = found.filter(|binding| binding.expires > now);
        alive.cloned().collect()
    }

    /// Replaces the bindings of an address of record.
    pub(crate) fn set(
        &mut self,
        now: Instant,
        address: &str,
        bindings: Vec<Binding>,
    ) -> Result<(), Refusal> {
        if bindings.len() > self.limits.max_contacts {
            let reason = format!("at most {} contacts are allowed", self.limits.max_contacts);
            return Err(Refusal::new(StatusCode::FORBIDDEN, reason));
        }
        self.handle_timeout(now);
        let is_new = !self.bindings.contains_key(address) && !bindings.is_empty();
        if is_new && self.bindings.len() >= self.limits.max_addresses {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let mut refusal = Refusal::new(status, "the table of locations is full");
            refusal.header = Some((HeaderName::RetryAfter, "60".to_owned()));
            return Err(refusal);
        }
        self.put(address, bindings);
        Ok(())
    }

    fn put(&mut self, address: &str, mut bindings: Vec<Binding>) {
        // A growing list starts with room for four entries, and most have one.
        bindings.shrink_to_fit();
        let before = self.bindings.remove(address).unwrap_or_default();
        self.count = self.count + bindings.len() - before.len();
        if let Some(at) = first_end(&before) {
            self.due.remove(&(at, address.to_owned()));
        }
        if before != bindings {
            self.changed.insert(address.to_owned());
        }
        if let Some(at) = first_end(&bindings) {
            self.due.insert((at, address.to_owned()));
            self.bindings.insert(address.to_owned(), bindings);
        }
    }
}

fn first_end(bindings: &[Binding]) -> Option<Instant> {
    bindings.iter().map(|binding| binding.expires).min()
}
