//! Networks for hosts behind clients. A client that is a router gets one beside its own address.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};
use tokio::time::Instant;

use super::HostNetworks;
use crate::gateway::ClientId;

/// Position of blocks in the networks of a pool. A block is one network of each family.
///
/// IPv4 blocks are in the upper half of the pool's first 65,536 addresses, or behind these. IPv6
/// blocks are behind the first 65,536 addresses, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlaces {
    v4: Option<Ipv4Net>,
    v6: Option<Ipv6Net>,
    /// Number of the first IPv4 address of the first block.
    base: u32,
    count: u32,
}

/// The owners of blocks.
///
/// A client keeps its block until all blocks are given, another client needs one, and the block was
/// unused for a while. Before that, the kernel may remember connections of the client's hosts, and
/// their packets would reach hosts of the next owner.
#[derive(Debug)]
pub(super) struct Blocks {
    given: BTreeMap<u32, Given>,
    /// How long a block must be unused before another client gets it.
    rest: Duration,
    /// Makes the places of new blocks unpredictable to clients, who choose their keys.
    places: RandomState,
}

#[derive(Debug)]
struct Given {
    owner: ClientId,
    /// Time when a tunnel of the owner last began or ended.
    used_at: Instant,
}

impl BlockPlaces {
    /// Computes the positions in a pool's networks. A small pool has no blocks.
    pub(super) fn of(v4: Option<Ipv4Net>, v6: Option<Ipv6Net>) -> Self {
        let v6 = v6.filter(|net| net.prefix_len() <= 96);
        let (base, count) = match v4 {
            Some(net) if net.prefix_len() <= 22 => {
                let size = 1_u64 << (32 - net.prefix_len());
                let base = (size / 2).min(1 << 16);
                // The last address of an IPv4 network is its broadcast address.
                let count = (size - base) / u64::from(V4_SIZE) - 1;
                (base as u32, count.min(MAX_BLOCKS.into()) as u32)
            }
            Some(_) => (u32::MAX, 0),
            None => (u32::MAX, if v6.is_some() { MAX_BLOCKS } else { 0 }),
        };
        Self {
            v4,
            v6,
            base,
            count,
        }
    }

    /// Returns the lowest number of an IPv4 address for hosts.
    pub(super) const fn base(&self) -> u32 {
        self.base
    }

    /// True for the number of a block.
    pub(super) const fn has(&self, block: u32) -> bool {
        block < self.count
    }

    /// Returns the networks of a block.
    pub(super) fn networks(&self, block: u32) -> HostNetworks {
        let v4 = self.v4.and_then(|net| {
            let address = u32::from(net.network()) + self.numbers(block).start;
            Ipv4Net::new(Ipv4Addr::from(address), 32 - V4_SIZE.ilog2() as u8).ok()
        });
        let v6 = self.v6.and_then(|net| {
            let address = u128::from(net.network()) + (u128::from(block + 1) << V6_BITS);
            Ipv6Net::new(Ipv6Addr::from(address), 128 - V6_BITS).ok()
        });
        HostNetworks { v4, v6 }
    }

    /// Returns the block that an address is in.
    pub(super) fn block_of(&self, address: IpAddr) -> Option<u32> {
        let block = match address {
            IpAddr::V4(address) => {
                let number = u32::from(address).checked_sub(self.v4?.network().into())?;
                number.checked_sub(self.base)? / V4_SIZE
            }
            IpAddr::V6(address) => {
                let number = u128::from(address).checked_sub(self.v6?.network().into())?;
                u32::try_from(number >> V6_BITS).ok()?.checked_sub(1)?
            }
        };
        self.has(block).then_some(block)
    }

    /// Returns the numbers of a block's IPv4 addresses.
    fn numbers(&self, block: u32) -> Range<u32> {
        let first = self.base.saturating_add(block * V4_SIZE);
        first..first.saturating_add(V4_SIZE)
    }
}

impl Blocks {
    /// Creates the table of owners, with all blocks free. A block is one client's networks for the
    /// hosts behind it. `rest`: how long a block must be unused before another client gets it.
    pub(super) fn new(rest: Duration) -> Self {
        Self {
            given: BTreeMap::new(),
            rest,
            places: RandomState::new(),
        }
    }

    /// Restores a client's block from an earlier run. It counts as used until now.
    pub(super) fn remember(&mut self, now: Instant, client: ClientId, block: u32) {
        let is_new = self.of(client).is_none() && !self.given.contains_key(&block);
        if is_new {
            self.insert(now, client, block);
        }
    }

    /// Returns the block that a client has.
    pub(super) fn of(&self, client: ClientId) -> Option<u32> {
        let mut given = self.given.iter();
        let own = given.find(|(_, given)| given.owner == client)?;
        Some(*own.0)
    }

    /// Notes that a tunnel of the client begins or ends.
    pub(super) fn on_used(&mut self, now: Instant, client: ClientId) {
        let mut given = self.given.values_mut();
        if let Some(own) = given.find(|given| given.owner == client) {
            own.used_at = now;
        }
    }

    /// Gives a client a block: its present block, else a free one, else the block that was unused
    /// for longest. `is_there`: whether a client has a tunnel. `is_free`: whether no client itself
    /// has an address with one of these numbers.
    pub(super) fn give(
        &mut self,
        now: Instant,
        places: &BlockPlaces,
        client: ClientId,
        is_there: impl Fn(ClientId) -> bool,
        is_free: impl Fn(Range<u32>) -> bool,
    ) -> Option<u32> {
        if let Some(own) = self.of(client) {
            return Some(own);
        }
        let hash = self.places.hash_one(client);
        let from = hash.checked_rem(places.count.into())? as u32;
        let mut all = (from..places.count).chain(0..from);
        let free =
            all.find(|block| !self.given.contains_key(block) && is_free(places.numbers(*block)));
        let block = free.or_else(|| self.rested(now, is_there))?;
        self.insert(now, client, block);
        Some(block)
    }

    /// Returns the block that was unused for longest, if that was long enough.
    fn rested(&self, now: Instant, is_there: impl Fn(ClientId) -> bool) -> Option<u32> {
        let has_rested = |given: &Given| now.saturating_duration_since(given.used_at) >= self.rest;
        let given = self.given.iter();
        let left = given.filter(|(_, given)| has_rested(given) && !is_there(given.owner));
        let longest = left.min_by_key(|(_, given)| given.used_at)?;
        Some(*longest.0)
    }

    fn insert(&mut self, now: Instant, owner: ClientId, block: u32) {
        let used_at = now;
        self.given.insert(block, Given { owner, used_at });
    }
}

/// Number of IPv4 addresses in a block: hosts differ in the last bits of their own addresses.
const V4_SIZE: u32 = 64;
/// Number of bits in which hosts of a block differ in IPv6, where hosts choose them at random.
const V6_BITS: u8 = 16;
const MAX_BLOCKS: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(600);

    fn places(v4: Option<&str>, v6: Option<&str>) -> BlockPlaces {
        BlockPlaces::of(
            v4.map(|it| it.parse().unwrap()),
            v6.map(|it| it.parse().unwrap()),
        )
    }

    fn client(number: u32) -> ClientId {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&number.to_be_bytes());
        ClientId::new(key)
    }

    #[test]
    fn blocks_do_not_overlap_and_stay_in_their_networks() {
        for (v4, v6) in [
            (Some("10.83.0.0/16"), Some("fd48::/64")),
            (Some("10.0.0.0/8"), Some("fd48::/96")),
            (Some("10.83.0.0/22"), None),
            (None, Some("fd48::/64")),
        ] {
            let places = places(v4, v6);
            assert!(places.count > 0, "{v4:?} {v6:?}");
            let mut last = Vec::new();
            for block in 0..places.count {
                let own = places.networks(block);
                assert_eq!(
                    (own.v4.is_some(), own.v6.is_some()),
                    (v4.is_some(), v6.is_some())
                );
                for net in own.networks() {
                    let all: ipnet::IpNet = if net.addr().is_ipv4() { v4 } else { v6 }
                        .unwrap()
                        .parse()
                        .unwrap();
                    assert!(all.contains(&net) && net.broadcast() != all.broadcast());
                    assert!(last.iter().all(|it: &ipnet::IpNet| !it.contains(&net)));
                    assert_eq!(places.block_of(net.network()), Some(block));
                    assert_eq!(places.block_of(net.broadcast()), Some(block));
                }
                last = own.networks().collect();
            }
        }
        let places = places(Some("10.83.0.0/16"), Some("fd48::/64"));
        for single in ["10.83.0.2", "10.83.127.255", "10.83.255.255", "10.84.0.0"] {
            assert_eq!(places.block_of(single.parse().unwrap()), None, "{single}");
        }
        for single in ["fd48::2", "fd48::ffff", "fd48::200:0:1", "fd49::1:0", "::"] {
            assert_eq!(places.block_of(single.parse().unwrap()), None, "{single}");
        }
    }

    /// A connected client asks for its block; all other clients are connected, too.
    fn give(blocks: &mut Blocks, places: &BlockPlaces, client: ClientId) -> Option<u32> {
        blocks.give(Instant::now(), places, client, |_| true, |_| true)
    }

    #[test]
    fn small_networks_have_none() {
        let none = [
            places(Some("10.83.0.0/23"), None),
            places(Some("10.83.0.0/24"), Some("fd48::/64")),
            places(None, Some("fd48::/97")),
            places(None, None),
        ];
        for places in none {
            let given = give(&mut Blocks::new(REST), &places, client(7));
            assert_eq!((places.count, given), (0, None));
        }
    }

    #[test]
    fn a_client_keeps_its_block_also_where_it_is_remembered() {
        let places = places(Some("10.83.0.0/16"), Some("fd48::/64"));
        let (mut blocks, mut later) = (Blocks::new(REST), Blocks::new(REST));
        let given: Vec<_> = (0..5)
            .map(|it| give(&mut blocks, &places, client(it)).unwrap())
            .collect();
        assert_eq!(give(&mut blocks, &places, client(1)), Some(given[1]));
        for (number, block) in (0..).zip(&given) {
            later.remember(Instant::now(), client(number), *block);
            // A block that another client has already stays with that client.
            later.remember(Instant::now(), client(number + 100), *block);
        }
        for (number, block) in (0..).zip(&given) {
            assert_eq!(later.of(client(number)), Some(*block));
            assert_eq!(give(&mut later, &places, client(number)), Some(*block));
            assert_eq!(later.of(client(number + 100)), None);
        }
    }

    #[test]
    fn a_key_does_not_choose_its_block() {
        let places = places(Some("10.83.0.0/16"), Some("fd48::/64"));
        let first = |_| give(&mut Blocks::new(REST), &places, client(7));
        let given: std::collections::BTreeSet<_> = (0..8).map(first).collect();
        // All eight are the same once in 511^7.
        assert!(given.len() > 1, "{given:?}");
    }

    #[test]
    fn a_block_goes_to_another_client_once_it_has_rested() {
        let places = places(Some("10.83.0.0/22"), None);
        let (mut blocks, began) = (Blocks::new(REST), Instant::now());
        let all = places.count;
        for number in 0..all {
            assert!(
                blocks
                    .give(began, &places, client(number), |_| true, |_| true)
                    .is_some()
            );
        }
        let mut ask = |now, there: &dyn Fn(ClientId) -> bool| {
            let given = blocks.give(now, &places, client(90), there, |_| true);
            given.map(|block| (block, blocks.of(client(3)), blocks.of(client(4))))
        };
        let is_there = |it| it != client(3) && it != client(4);
        assert_eq!(ask(began + REST, &|_| true), None, "all are there");
        assert_eq!(ask(began + REST - Duration::from_secs(1), &is_there), None);
        // The client that ended its tunnel first loses its block.
        blocks.on_used(began + Duration::from_secs(10), client(3));
        blocks.on_used(began + Duration::from_secs(9), client(4));
        let (third, fourth) = (blocks.of(client(3)), blocks.of(client(4)));
        let mut ask = |seconds| {
            let now = began + REST + Duration::from_secs(seconds);
            blocks.give(now, &places, client(90), is_there, |_| true)
        };
        assert_eq!(ask(8), None);
        assert_eq!(ask(20), fourth);
        assert_eq!(blocks.of(client(4)), None);
        assert_eq!(blocks.of(client(3)), third);
    }

    #[test]
    fn where_single_addresses_were_given_there_is_no_block() {
        let places = places(Some("10.83.0.0/22"), None);
        let first = places.numbers(0).start;
        let is_free = |numbers: Range<u32>| !numbers.contains(&first);
        let mut blocks = Blocks::new(REST);
        let given: Vec<_> = (0..places.count)
            .map(|it| blocks.give(Instant::now(), &places, client(it), |_| true, is_free))
            .collect();
        assert!(!given.contains(&Some(0)), "{given:?}");
        assert_eq!(given.last(), Some(&None), "one fewer than there are");
    }
}
