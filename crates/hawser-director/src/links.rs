use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_types::link::{full_tunnel, usable};
use hawser_types::{Instant, Link, LinkIndex};

use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;

/// Links for connections, with the knowledge about each.
#[derive(Debug)]
pub(crate) struct Links {
    /// Links that the user named; empty for all links.
    wanted: Vec<String>,
    records: BTreeMap<LinkIndex, LinkRecord>,
    /// Unusable links, and since when: switched off, without carrier, removed.
    gone: BTreeMap<LinkIndex, Instant>,
    /// VPNs through which the system sends all IPv4 and all IPv6 traffic.
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

    /// Sets the machine's current links.
    pub(crate) fn set(&mut self, now: Instant, links: &[Link]) {
        self.note_tunnels(links);
        let mut known = std::mem::take(&mut self.records);
        for link in usable(links, &self.wanted) {
            let index = link.index;
            let before = known.remove(&index);
            // The number may belong to another interface by now.
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

    /// True if the link has been gone for so long that its connections are given up.
    pub(crate) fn is_given_up(&self, index: LinkIndex, now: Instant) -> bool {
        let gone = self.gone.get(&index);
        gone.is_some_and(|since| now.since(*since) >= GIVEN_UP_AFTER)
    }

    /// Forgets links that are gone and unused.
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

    /// True if the user named the links to use.
    pub(crate) const fn are_named(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// True if a link of this name would be used if it existed.
    pub(crate) fn is_wanted(&self, name: &String) -> bool {
        self.wanted.is_empty() || self.wanted.contains(name)
    }

    /// Returns the VPNs that take all IPv4 and all IPv6 traffic; `None` if the user has named links
    /// or forbidden the VPN.
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
                    "leaving connections to a VPN that has all {family} traffic, \
                     unless links are named"
                ),
                (_, None) => tracing::info!("VPN for all {family} traffic gone"),
            }
        }
        self.tunnels = found;
    }
}
/// A link that returns within this time keeps its connections: for example, a plug was moved, or a
/// modem registered again.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3);
