//! Networks for hosts behind clients, which clients that are routers get beside their own address.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use ipnet::{Ipv4Net, Ipv6Net};

use super::HostNetworks;
use crate::gateway::ClientId;

/// Where blocks lie in the networks of a pool. A block is a network of each family.
///
/// Those of IPv4 are in the upper half of the pool's first 65,536 addresses, or behind these. Those
/// of IPv6 are behind the first 65,536 addresses, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockPlaces {
    v4: Option<Ipv4Net>,
    v6: Option<Ipv6Net>,
    /// The number of the first block's first address of IPv4.
    base: u32,
    count: u32,
}

/// Who has which block. A client keeps its block until all are given and another one needs it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    owners: BTreeMap<u32, ClientId>,
}

impl BlockPlaces {
    /// The places in a pool's networks; none in a small one.
    pub(super) fn of(v4: Option<Ipv4Net>, v6: Option<Ipv6Net>) -> Self {
        let v6 = v6.filter(|net| net.prefix_len() <= 96);
        let (base, count) = match v4 {
            Some(net) if net.prefix_len() <= 22 => {
                let size = 1_u64 << (32 - net.prefix_len());
                let base = (size / 2).min(1 << 16);
                // The last address of an IPv4 network is for all of it.
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

    /// The number from which on addresses of IPv4 are for hosts.
    pub(super) const fn base(&self) -> u32 {
        self.base
    }

    /// The networks of a block.
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

    /// The block that an address is in.
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
        (block < self.count).then_some(block)
    }

    /// The numbers of a block's addresses of IPv4.
    fn numbers(&self, block: u32) -> Range<u32> {
        let first = self.base.saturating_add(block * V4_SIZE);
        first..first.saturating_add(V4_SIZE)
    }
}

impl Blocks {
    /// Gives a client its block: the one that it has, else a free one, else one of a client that is
    /// not there. `is_there`: a client has a tunnel. `is_free`: no single address of these numbers
    /// was given.
    ///
    /// The search begins at a place that the client's key gives, so that after a restart each finds
    /// the block that it had, but for rare collisions.
    pub(super) fn give(
        &mut self,
        places: &BlockPlaces,
        client: ClientId,
        is_there: impl Fn(ClientId) -> bool,
        is_free: impl Fn(Range<u32>) -> bool,
    ) -> Option<u32> {
        let mut known = self.owners.iter();
        if let Some((block, _)) = known.find(|(_, owner)| **owner == client) {
            return Some(*block);
        }
        let [a, b, c, d, ..] = client.to_bytes();
        let from = u32::from_be_bytes([a, b, c, d]).checked_rem(places.count)?;
        let mut all = (from..places.count).chain(0..from);
        let is_unused =
            |block: &u32| !self.owners.contains_key(block) && is_free(places.numbers(*block));
        let is_left = |block: &u32| self.owners.get(block).is_some_and(|it| !is_there(*it));
        let found = all.clone().find(is_unused);
        let block = found.or_else(|| all.find(is_left))?;
        self.owners.insert(block, client);
        Some(block)
    }
}

/// Addresses of IPv4 in a block: hosts are told apart by the last bits of their own addresses.
const V4_SIZE: u32 = 64;
/// Such bits of IPv6, where hosts choose them at random.
const V6_BITS: u8 = 16;
const MAX_BLOCKS: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn small_networks_have_none() {
        let none = [
            places(Some("10.83.0.0/23"), None),
            places(Some("10.83.0.0/24"), Some("fd48::/64")),
            places(None, Some("fd48::/97")),
            places(None, None),
        ];
        for places in none {
            let given = Blocks::default().give(&places, client(7), |_| true, |_| true);
            assert_eq!((places.count, given), (0, None));
        }
    }

    #[test]
    fn a_client_keeps_its_block_and_finds_it_again_after_a_restart() {
        let places = places(Some("10.83.0.0/16"), Some("fd48::/64"));
        let mut blocks = Blocks::default();
        let given: Vec<_> = (0..5)
            .map(|it| blocks.give(&places, client(1000 + it * 7), |_| true, |_| true))
            .collect();
        let again = blocks.give(&places, client(1007), |_| true, |_| true);
        assert_eq!(again, given[1]);
        let mut later = Blocks::default();
        for number in (0..5).rev() {
            let block = later.give(&places, client(1000 + number * 7), |_| true, |_| true);
            assert_eq!(block, given[number as usize]);
        }
    }

    #[test]
    fn when_all_are_given_a_client_that_is_not_there_loses_its_own() {
        let places = places(Some("10.83.0.0/22"), None);
        let mut blocks = Blocks::default();
        let first = places.numbers(0).start;
        let is_free = |numbers: Range<u32>| !numbers.contains(&first);
        for number in 1..places.count {
            assert!(
                blocks
                    .give(&places, client(number), |_| true, is_free)
                    .is_some()
            );
        }
        assert_eq!(blocks.give(&places, client(90), |_| true, is_free), None);
        let lost = blocks.give(&places, client(3), |_| true, is_free);
        let is_there = |it| it != client(3);
        assert_eq!(blocks.give(&places, client(90), is_there, is_free), lost);
        assert_eq!(blocks.give(&places, client(3), |_| true, is_free), None);
    }
}
