//! Where everybody is: bindings of addresses of record to contacts.

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
    /// When it ends.
    pub expires: Instant,
    /// When it was set last.
    pub updated: Instant,
    /// Call-ID and CSeq of the request that set it: an older one does not.
    pub call_id: CallId,
    /// See `call_id`.
    pub cseq: u32,
    /// The way to the contact, nearest first (RFC 3327).
    pub path: Vec<NameAddr>,
    /// The host and its link (RFC 5626): a new contact with these replaces the old one.
    pub outbound: Option<(String, u32)>,
    /// Where the request came from that set it.
    pub origin: Origin,
}

impl Binding {
    /// Returns the contact as an answer to REGISTER has it, with `q` and the seconds left.
    #[must_use]
    pub fn to_contact(&self, now: Instant) -> NameAddr {
        let left = self.expires.since(now);
        // Rounded up: a binding that is there has time left.
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let mut contact = self.contact.clone();
        contact.params.set("q", &self.q.to_string());
        contact.params.set("expires", &seconds.to_string());
        contact
    }

    /// Returns where the next hop of the way to the contact registered from.
    pub(crate) fn way_back(&self) -> Origin {
        Origin {
            // With a path the stream is that of its last hop.
            stream: self.origin.stream.filter(|_| self.path.is_empty()),
            ..self.origin
        }
    }

    /// Whether both are for the same contact: by host and link where both have them, else by URI.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match (&self.outbound, &other.outbound) {
            (Some(one), Some(two)) => one == two,
            _ => self.contact.uri.is_equivalent(&other.contact.uri),
        }
    }
}

/// Where a request with a right proof came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The address that the proof was made for. `None` where an earlier version kept the binding.
    pub address: Option<IpAddr>,
    /// The stream, by which contacts are reached while it is open.
    pub stream: Option<Flow>,
}

/// Bounds of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationLimits {
    /// Addresses of record.
    pub max_addresses: usize,
    /// Contacts of one address of record.
    pub max_contacts: usize,
    /// The shortest time that a contact may be registered for.
    pub min_expires: Duration,
    /// The longest one. Who asks for more gets this.
    pub max_expires: Duration,
    /// The time for who asks for none.
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

/// The table of bindings. No address of record in it has none.
///
/// Change it once, then drain [`Location::poll_change`], and call [`Location::handle_timeout`] at
/// [`Location::poll_timeout`].
#[derive(Debug)]
pub struct Location {
    limits: LocationLimits,
    bindings: BTreeMap<String, Vec<Binding>>,
    /// Bindings of all addresses together.
    count: usize,
    /// When the first binding of each address ends.
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

    /// Returns the bindings of an address of record, the preferred ones first; of equal ones the
    /// latest.
    #[must_use]
    pub fn lookup(&self, now: Instant, address: &str) -> Vec<Binding> {
        let mut bindings = self.bindings(now, address);
        bindings.sort_by_key(|binding| std::cmp::Reverse((binding.q, binding.updated)));
        bindings
    }

    /// Returns all bindings with their addresses of record, to be kept over a restart.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[Binding])> {
        let all = self.bindings.iter();
        all.map(|(address, bindings)| (address.as_str(), bindings.as_slice()))
    }

    /// Puts bindings back that were kept. Their times are those of this process's clock; what has
    /// ended is left out.
    ///
    /// # Errors
    /// When the table, or the list of this address, would be larger than it may be.
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

    /// Whether nobody has a binding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// Returns an address of record whose bindings have changed since it was returned last.
    pub fn poll_change(&mut self) -> Option<String> {
        self.changed.pop_first()
    }

    /// Returns when [`Location::handle_timeout`] is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Removes what has ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((_, address)) = self.due.first().filter(|(at, _)| *at <= now) {
            let address = address.clone();
            let left = self.bindings(now, &address);
            self.put(&address, left);
        }
    }

    /// Returns the bindings in the order in which they came.
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
        // A list that grows begins with room for four, and most have one.
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
