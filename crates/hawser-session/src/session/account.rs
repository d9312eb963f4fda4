//! What went over each link.

use std::collections::BTreeMap;

use hawser_sched::governor::Standing;
use hawser_sched::rules::Permission;
use hawser_types::{ByteCount, LinkIndex};

use super::Session;
use crate::LinkSnapshot;

/// What was counted of one link since the session began; never falls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkAccount {
    /// Bytes of records, headers and tags included.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Session {
    /// The account of a link. Those of links without channels are kept too, as far as there is
    /// room: a peer names links as it likes.
    pub(super) fn account(&mut self, link: LinkIndex) -> &mut LinkAccount {
        if self.accounts.len() >= MAX_ACCOUNTS && !self.accounts.contains_key(&link) {
            let channels = &self.channels;
            let is_there = |link: &LinkIndex| channels.values().any(|c| c.spec.link == *link);
            self.accounts.retain(|link, _| is_there(link));
        }
        self.accounts.entry(link).or_default()
    }

    pub(super) fn link_snapshots(&self) -> Vec<LinkSnapshot> {
        let mut links: BTreeMap<LinkIndex, LinkSnapshot> = BTreeMap::new();
        for (link, account) in &self.accounts {
            let snapshot = LinkSnapshot {
                link: *link,
                standing: Standing::Full,
                preferred: false,
                sent: ByteCount::new(account.sent),
                received: ByteCount::new(account.received),
            };
            links.insert(*link, snapshot);
        }
        for channel in self.channels.values() {
            if let Some(snapshot) = links.get_mut(&channel.spec.link) {
                snapshot.standing = channel.standing;
                snapshot.preferred = channel.terms.permission == Permission::Preferred;
            }
        }
        links.into_values().collect()
    }
}

/// Twice as many as channels can use at once.
const MAX_ACCOUNTS: usize = 128;
