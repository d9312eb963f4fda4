use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_types::link::{full_tunnel, usable};
use hawser_types::{Instant, Link, LinkIndex};

use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;

/// The links that connections may be placed on, with what is known of each.
#[derive(Debug)]
pub(crate) struct Links {
    /// The links that the user named; none: all.
    wanted: Vec<String>,
    records: BTreeMap<LinkIndex, LinkRecord>,
    /// Links that can't be used any more, and since when: switched off, without carrier, removed.
    gone: BTreeMap<LinkIndex, Instant>,
    /// The VPNs that the system sends all IPv4 and all IPv6 traffic through.
    tunnels: [Option<Link>; 2],
}

impl Links {
    pub(crate) fn new(wanted: Vec<String>) -> Self {
        Self {
            wanted,
            records: BTreeMap::new(),
            gone: BTreeMap::new(),
            tunnels: [None, None],
        }
    }

    /// Takes over the machine's links as they are now.
    pub(crate) fn set(&mut self, now: Instant, links: &[Link]) {
        self.note_tunnels(links);
        let mut known = std::mem::take(&mut self.records);
        for link in usable(links, &self.wanted) {
            let index = link.index;
            let before = known.remove(&index);
            // The number may be another interface's by now.
            let same = before.filter(|record| record.link().name == link.name);
            let link = Arc::new(link);
            let record = match same {
                Some(mut record) => {
                    record.set_link(link);
                    record
                }
                None => LinkRecord::new(link, now),
            };
            self.gone.remove(&index);
            self.records.insert(index, record);
        }
        for index in known.into_keys() {
            self.gone.insert(index, now);
        }
    }

    /// True if the link has been gone for so long that nothing waits for it any longer.
    pub(crate) fn is_given_up(&self, index: LinkIndex, now: Instant) -> bool {
        let gone = self.gone.get(&index);
        gone.is_some_and(|since| now.since(*since) >= GIVEN_UP_AFTER)
    }

    /// Forgets links that are gone and not used by anything.
    pub(crate) fn forget_gone(&mut self, is_used: impl Fn(LinkIndex) -> bool) {
        self.gone.retain(|index, _| is_used(*index));
    }

    pub(crate) fn get(&self, index: LinkIndex) -> Option<&LinkRecord> {
        self.records.get(&index)
    }

    pub(crate) fn get_mut(&mut self, index: LinkIndex) -> Option<&mut LinkRecord> {
        self.records.get_mut(&index)
    }

    /// All links, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &LinkRecord> {
        self.records.values()
    }

    /// All links, by index.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut LinkRecord> {
        self.records.values_mut()
    }

    /// True if the user has named the links to use.
    pub(crate) const fn are_named(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// True if a link of this name would be used once it is there.
    pub(crate) fn is_wanted(&self, name: &String) -> bool {
        self.wanted.is_empty() || self.wanted.contains(name)
    }

    /// The VPNs that take all IPv4 and all IPv6 traffic; none where the user has named links, or
    /// has forbidden the VPN.
    pub(crate) fn tunnels(&self, rules: &AllLinkRules) -> [Option<&Link>; 2] {
        let is_allowed = |link: &&Link| !rules.permission(link).is_forbidden();
        let tunnels = self.tunnels.each_ref();
        tunnels.map(|tunnel| tunnel.as_ref().filter(is_allowed))
    }

    fn note_tunnels(&mut self, links: &[Link]) {
        let named = self.are_named();
        let found = [false, true].map(|v6| full_tunnel(links, v6).filter(|_| !named).cloned());
        for (family, (before, now)) in ["IPv4", "IPv6"].iter().zip(self.tunnels.iter().zip(&found))
        {
            let name = |tunnel: &Option<Link>| tunnel.as_ref().map(|it| it.name.clone());
            match (name(before), name(now)) {
                (before, now) if before == now => {}
                (_, Some(tunnel)) => tracing::info!(
                    tunnel,
                    "a VPN takes all {family} traffic: connections are left to it, \
                     unless links are named"
                ),
                (_, None) => tracing::info!("no VPN takes all {family} traffic any more"),
            }
        }
        self.tunnels = found;
    }
}
/// A link that comes back within this time keeps its connections: a plug was moved, a modem has
/// registered again.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
