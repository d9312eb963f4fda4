//! Addresses found over links, for as long as the servers allow.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_types::{HostName, LinkIndex};
use tokio::time::Instant;

use super::race::Found;
use crate::links::Link;

/// Addresses by name. They are valid only for the links over which they were found.
#[derive(Debug, Default)]
pub(super) struct Cache {
    links: Vec<(LinkIndex, Vec<IpAddr>)>,
    entries: BTreeMap<HostName, (Instant, Vec<IpAddr>)>,
}

impl Cache {
    pub(super) fn get(&self, host: &HostName, links: &[Link], now: Instant) -> Option<Vec<IpAddr>> {
        let (until, addresses) = self.entries.get(host)?;
        let holds = now < *until && self.links == identities(links);
        holds.then(|| addresses.clone())
    }

    pub(super) fn put(&mut self, host: &HostName, links: &[Link], now: Instant, found: &Found) {
        let links = identities(links);
        if self.links != links {
            self.links = links;
            self.entries.clear();
        }
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.retain(|_, (until, _)| now < *until);
        }
        if self.entries.len() >= MAX_ENTRIES {
            self.entries.pop_first();
        }
        let until = now + found.time_to_live.min(MAX_AGE);
        let entry = (until, found.addresses.clone());
        self.entries.insert(host.clone(), entry);
    }
}

fn identities(links: &[Link]) -> Vec<(LinkIndex, Vec<IpAddr>)> {
    let identity = |link: &Link| (link.index, link.addresses.clone());
    links.iter().map(identity).collect()
}

const MAX_ENTRIES: usize = 1024;
/// Longest lifetime of an entry, since servers move.
const MAX_AGE: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn found(seconds: u64) -> Found {
        Found {
            addresses: vec!["192.0.2.1".parse().unwrap()],
            time_to_live: Duration::from_secs(seconds),
        }
    }

    #[tokio::test]
    async fn an_entry_holds_as_long_as_its_server_says_and_for_the_same_links() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let host: HostName = "gw.example.org".parse().unwrap();
        cache.put(&host, &[], now, &found(60));
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(cache.get(&host, &[], at(59)).is_some());
        assert_eq!(cache.get(&host, &[], at(60)), None);
        let links = crate::links::list_links().await.unwrap();
        assert_eq!(cache.get(&host, &links, now), None);
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for n in 0..MAX_ENTRIES + 10 {
            let host = format!("n{n}.example").parse().unwrap();
            cache.put(&host, &[], now, &found(60));
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
    }
}
