use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use tokio::time::Instant;

use super::settings::PeerSettings;

/// Probe results by address, each kept for a limited time.
#[derive(Debug)]
pub(super) struct Cache {
    settings: PeerSettings,
    entries: BTreeMap<IpAddr, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: Option<PublicKey>,
    /// A probe is in progress or about to begin.
    probing: bool,
    until: Instant,
}

impl Cache {
    pub(super) const fn new(settings: PeerSettings) -> Self {
        Self {
            settings,
            entries: BTreeMap::new(),
        }
    }

    /// Returns the peer at `address`, if one is known, and whether a probe is due.
    pub(super) fn ask(&self, address: IpAddr, now: Instant) -> (Option<PublicKey>, bool) {
        let Some(entry) = self.entries.get(&address) else {
            return (None, true);
        };
        let peer = entry.peer.filter(|_| now < entry.until);
        // A known peer is probed again before its entry expires, so that it stays known.
        let early = match peer {
            Some(_) => self.settings.keep_found / 4,
            None => Duration::ZERO,
        };
        (peer, !entry.probing && now + early >= entry.until)
    }

    /// Marks a probe of `address` as begun. Returns false if the cache has no room for its result.
    pub(super) fn begin(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.entries.len() >= MAX_ENTRIES && !self.entries.contains_key(&address) {
            let idle = self.entries.iter().filter(|(_, entry)| !entry.probing);
            let first = idle.min_by_key(|(_, entry)| (entry.peer.is_some(), entry.until));
            let Some(first) = first.map(|(address, _)| *address) else {
                return false;
            };
            self.entries.remove(&first);
        }
        let entry = self.entries.entry(address).or_insert(Entry {
            peer: None,
            probing: true,
            until: now,
        });
        entry.probing = true;
        true
    }

    /// Stores the result of a probe.
    pub(super) fn enter(&mut self, address: IpAddr, peer: Option<PublicKey>, now: Instant) {
        let keep = match peer {
            Some(_) => self.settings.keep_found,
            None => self.settings.keep_missing,
        };
        if let Some(entry) = self.entries.get_mut(&address) {
            *entry = Entry {
                peer,
                probing: false,
                until: now + keep,
            };
        }
    }

    /// Counts `address` as having no peer for a while, because its peer was of no use.
    pub(super) fn give_up(&mut self, address: IpAddr, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.peer = None;
            entry.until = now + self.settings.keep_missing;
        }
    }

    #[cfg(test)]
    pub(super) fn is_probing(&self, address: IpAddr) -> bool {
        self.entries
            .get(&address)
            .is_some_and(|entry| entry.probing)
    }

    /// Returns all known peers.
    pub(super) fn peers(&self, now: Instant) -> BTreeMap<IpAddr, PublicKey> {
        let living = self.entries.iter().filter(|(_, entry)| now < entry.until);
        living
            .filter_map(|(address, entry)| Some((*address, entry.peer?)))
            .collect()
    }
}

/// Largest number of entries, however many destinations there are.
const MAX_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn settings() -> PeerSettings {
        PeerSettings {
            keep_found: Duration::from_secs(100),
            keep_missing: Duration::from_secs(10),
            ..PeerSettings::at_port(7443)
        }
    }

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    fn key() -> PublicKey {
        PublicKey::from_bytes([1; 32])
    }

    #[test]
    fn an_address_is_probed_once_and_the_answer_expires() {
        let mut cache = Cache::new(settings());
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(cache.ask(address(1), now), (None, true));
        assert!(cache.begin(address(1), now));
        assert_eq!(cache.ask(address(1), after(99)), (None, false));
        cache.enter(address(1), None, now);
        assert_eq!(cache.ask(address(1), after(9)), (None, false));
        assert_eq!(cache.ask(address(1), after(10)), (None, true));
    }

    #[test]
    fn a_peer_is_looked_for_again_before_it_is_forgotten() {
        let mut cache = Cache::new(settings());
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        assert!(cache.begin(address(1), now));
        cache.enter(address(1), Some(key()), now);
        assert_eq!(cache.ask(address(1), after(74)), (Some(key()), false));
        assert_eq!(cache.ask(address(1), after(75)), (Some(key()), true));
        assert!(cache.begin(address(1), after(75)));
        assert_eq!(cache.ask(address(1), after(76)), (Some(key()), false));
        assert_eq!(cache.ask(address(1), after(100)), (None, false));
        assert_eq!(cache.peers(after(99)).len(), 1);
        assert_eq!(cache.peers(after(100)).len(), 0);
    }

    #[test]
    fn a_peer_that_is_of_no_use_is_none_for_a_while() {
        let mut cache = Cache::new(settings());
        let now = Instant::now();
        assert!(cache.begin(address(1), now));
        cache.enter(address(1), Some(key()), now);
        cache.give_up(address(1), now);
        assert_eq!(cache.ask(address(1), now), (None, false));
        let later = now + Duration::from_secs(10);
        assert_eq!(cache.ask(address(1), later), (None, true));
    }

    #[test]
    fn addresses_without_end_take_no_more_room_and_peers_stay_longest() {
        let mut cache = Cache::new(settings());
        let now = Instant::now();
        assert!(cache.begin(address(0), now));
        cache.enter(address(0), Some(key()), now);
        for n in 1..3 * MAX_ENTRIES as u32 {
            assert!(cache.begin(address(n), now));
            cache.enter(address(n), None, now);
        }
        assert_eq!(cache.entries.len(), MAX_ENTRIES);
        assert_eq!(cache.ask(address(0), now).0, Some(key()));
    }
}
