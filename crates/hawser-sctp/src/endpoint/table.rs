use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::VerificationTag;
use smallvec::{SmallVec, smallvec};

use super::id::AssociationId;
use crate::handshake::MAX_PEER_ADDRESSES;

/// Table that finds the association of a packet.
///
/// The tag identifies an association, whatever address a packet comes from. Addresses identify it
/// only for the few packets without its tag.
#[derive(Debug, Default)]
pub(super) struct Table {
    now: Instant,
    last: u64,
    known: BTreeMap<AssociationId, Entry>,
    by_tag: BTreeMap<VerificationTag, AssociationId>,
    by_address: BTreeMap<(Ports, SocketAddr), AssociationId>,
    /// Number of associations that each host began.
    hosts: BTreeMap<IpAddr, usize>,
    past_tags: PastTags,
}

/// The SCTP ports of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ports {
    pub(super) own: u16,
    pub(super) peer: u16,
}

#[derive(Debug)]
struct Entry {
    ports: Ports,
    /// The tag in use, and the tag that replaces it if the peer's restart succeeds.
    tags: SmallVec<[VerificationTag; 2]>,
    addresses: Vec<SocketAddr>,
    host: Option<IpAddr>,
}

/// Tags of past associations that cookies may still name.
#[derive(Debug, Default)]
struct PastTags {
    tags: BTreeSet<VerificationTag>,
    until: VecDeque<(Instant, VerificationTag)>,
}

impl Table {
    pub(super) fn on_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.past_tags.on_time(self.now);
    }

    #[cfg(test)]
    pub(super) fn has(&self, id: AssociationId) -> bool {
        self.known.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Returns the number of associations that the host of this address began.
    pub(super) fn count_of(&self, address: IpAddr) -> usize {
        self.hosts.get(&host_of(address)).copied().unwrap_or(0)
    }

    pub(super) fn insert(
        &mut self,
        ports: Ports,
        tag: VerificationTag,
        addresses: &[SocketAddr],
    ) -> AssociationId {
        self.last += 1;
        let id = AssociationId(self.last);
        let known = Entry {
            ports,
            tags: smallvec![tag],
            addresses: Vec::new(),
            host: None,
        };
        self.known.insert(id, known);
        self.by_tag.insert(tag, id);
        self.set_addresses(id, addresses);
        id
    }

    /// Counts the association for the host that began it.
    pub(super) fn set_host(&mut self, id: AssociationId, address: IpAddr) {
        if let Some(known) = self.known.get_mut(&id) {
            let host = host_of(address);
            known.host = Some(host);
            *self.hosts.entry(host).or_default() += 1;
        }
    }

    pub(super) fn by_tag(&self, tag: VerificationTag, ports: Ports) -> Option<AssociationId> {
        let id = *self.by_tag.get(&tag)?;
        (self.known.get(&id)?.ports == ports).then_some(id)
    }

    pub(super) fn by_address(&self, ports: Ports, address: SocketAddr) -> Option<AssociationId> {
        self.by_address.get(&(ports, address)).copied()
    }

    /// Tells whether no association has the tag, nor had it lately.
    pub(super) fn is_free(&self, tag: VerificationTag) -> bool {
        !self.by_tag.contains_key(&tag) && !self.is_past(tag)
    }

    pub(super) fn is_past(&self, tag: VerificationTag) -> bool {
        self.past_tags.tags.contains(&tag)
    }

    /// Adds the tag of a cookie by which the peer restarts. `is_own` tells which of the
    /// association's tags the cookie names as its predecessor: that one is in use.
    pub(super) fn on_restart(
        &mut self,
        id: AssociationId,
        tag: VerificationTag,
        is_own: impl Fn(VerificationTag) -> bool,
    ) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        let Some(used) = known.tags.iter().copied().find(|it| is_own(*it)) else {
            return;
        };
        for old in known.tags.drain(..).filter(|it| *it != used) {
            self.by_tag.remove(&old);
        }
        known.tags.extend([used, tag]);
        self.by_tag.insert(tag, id);
    }

    /// Replaces an association's addresses: at most [`MAX_PEER_ADDRESSES`], without those of other
    /// associations.
    pub(super) fn set_addresses(&mut self, id: AssociationId, addresses: &[SocketAddr]) {
        let Some(known) = self.known.get_mut(&id) else {
            return;
        };
        let ports = known.ports;
        for address in known.addresses.drain(..) {
            self.by_address.remove(&(ports, address));
        }
        for address in addresses.iter().take(MAX_PEER_ADDRESSES) {
            self.by_address.entry((ports, *address)).or_insert_with(|| {
                known.addresses.push(*address);
                id
            });
        }
    }

    /// Removes an association. Cookies that name it are refused for the span `memory`.
    pub(super) fn remove(&mut self, id: AssociationId, memory: Duration) {
        self.set_addresses(id, &[]);
        let Some(known) = self.known.remove(&id) else {
            return;
        };
        for tag in known.tags {
            self.by_tag.remove(&tag);
            self.past_tags.add(self.now + memory, tag);
        }
        if let Some(host) = known.host
            && let Some(count) = self.hosts.get_mut(&host)
        {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&host);
            }
        }
    }
}

impl PastTags {
    fn add(&mut self, until: Instant, tag: VerificationTag) {
        if self.until.len() >= MAX_PAST_TAGS {
            self.drop_first();
        }
        if self.tags.insert(tag) {
            self.until.push_back((until, tag));
        }
    }

    fn on_time(&mut self, now: Instant) {
        while self.until.front().is_some_and(|(until, _)| *until <= now) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, tag)) = self.until.pop_front() {
            self.tags.remove(&tag);
        }
    }
}

/// Returns the address range that counts as one host: an IPv4 address, or an IPv6 /64.
fn host_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => std::net::Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
    }
}

/// Maximum number of past tags remembered.
const MAX_PAST_TAGS: usize = 65_536;
