//! The addresses that a gateway gives to its clients.

mod blocks;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use hawser_keys::store::OwnAddresses;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use tokio::time::Instant;

pub use super::terms::Inner;
use super::terms::{HostNetworks, Wish};
use crate::gateway::ClientId;
use blocks::{BlockPlaces, Blocks};

/// Addresses in one network of each family. A client's addresses have the same number in both, the
/// offset from the network's first address; the gateway has number 1. A client that is a router
/// also gets a block of addresses for its hosts.
#[derive(Debug)]
pub struct AddressPool {
    networks: Networks,
    /// The number that was last given to a tunnel without a permanent address.
    latest: u32,
    /// Addresses of open tunnels, by number.
    leases: BTreeMap<u32, Lease>,
    /// Permanent addresses of clients, kept also while a client has no tunnel.
    permanent: BTreeMap<u32, ClientId>,
    blocks: Blocks,
}

/// The networks of a pool, and how many addresses they have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Networks {
    v4: Option<Ipv4Net>,
    v6: Option<Ipv6Net>,
    /// The highest number that a client may have.
    last: u32,
    blocks: BlockPlaces,
}

/// The client or the block of addresses to which an address of a pool belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AddressHolder {
    /// A client itself, by its number in the pool.
    Client(u32),
    /// A host behind the client that has this block.
    Block(u32),
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    client: ClientId,
    /// Identity of the tunnel: several tunnels may have the same number one after the other.
    tunnel: u64,
}

/// Why a pool can't be made, or gives no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// A network that is too small, or a second one of its family.
    #[error("{0} has no room: a pool is one network of each family with 8 addresses at least")]
    Network(IpNet),
    /// No address is free.
    #[error("all {0} addresses of the pool are in use")]
    Exhausted(u32),
    /// The client has too many tunnels.
    #[error("the client has {MAX_TUNNELS} tunnels already")]
    TooMany,
}

/// Addresses granted to a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) number: u32,
    /// The block for hosts, if the client asks for one and one is available.
    pub(super) block: Option<u32>,
    /// The client's permanent addresses, if some of them are new and must be stored.
    pub(super) to_keep: Option<OwnAddresses>,
}

impl AddressPool {
    /// Creates a pool with one network of each family, or of one family only. `rest`: how long a
    /// block of addresses must be unused before another client gets it, which is as long as the
    /// kernel may remember its connections.
    ///
    /// # Errors
    /// A network is too small, or the second one of its family.
    pub fn new(networks: &[IpNet], rest: Duration) -> Result<Self, PoolError> {
        let (mut v4, mut v6, mut last) = (None, None, MAX_NUMBER);
        for net in networks {
            let bits = net.max_prefix_len() - net.prefix_len();
            let is_taken = match net {
                IpNet::V4(net) => v4.replace(net.trunc()).is_some(),
                IpNet::V6(net) => v6.replace(net.trunc()).is_some(),
            };
            if is_taken || bits < MIN_BITS {
                return Err(PoolError::Network(*net));
            }
            // The last address of an IPv4 network is its broadcast address.
            let room = 1_u32.checked_shl(bits.into()).unwrap_or(u32::MAX) - 2;
            last = last.min(room);
        }
        Ok(Self {
            networks: Networks {
                v4,
                v6,
                last,
                blocks: BlockPlaces::of(v4, v6),
            },
            latest: GATEWAY,
            leases: BTreeMap::new(),
            permanent: BTreeMap::new(),
            blocks: Blocks::new(rest),
        })
    }

    /// Returns the pool's networks, which do not change.
    pub(super) fn networks(&self) -> Networks {
        self.networks
    }

    /// Restores the addresses that a client got in an earlier run, as far as they are in this pool.
    pub fn remember(&mut self, now: Instant, client: ClientId, own: OwnAddresses) {
        if (FIRST..=self.networks.last).contains(&own.number) {
            self.permanent.entry(own.number).or_insert(client);
        }
        self.remember_block(now, client, own.block);
    }

    /// Restores the block of a client from an earlier run. Even if that client is no longer
    /// allowed, no other client gets the block before it has rested.
    pub fn remember_block(&mut self, now: Instant, client: ClientId, block: Option<u32>) {
        if let Some(block) = block.filter(|block| self.networks.blocks.has(*block)) {
            self.blocks.remember(now, client, block);
        }
    }

    /// Returns the gateway's addresses, with the networks that they are in.
    pub fn gateway(&self) -> Vec<IpNet> {
        let own = self.addresses(GATEWAY);
        let lengths = [
            self.networks.v4.map(|net| net.prefix_len()),
            self.networks.v6.map(|net| net.prefix_len()),
        ];
        let lengths = lengths.into_iter().flatten();
        let nets = own.addresses().zip(lengths);
        nets.filter_map(|(address, length)| IpNet::new(address, length).ok())
            .collect()
    }

    /// Returns the addresses with a number.
    pub(super) fn addresses(&self, number: u32) -> Inner {
        self.networks.addresses(number)
    }

    /// Gives an address to the tunnel with the identity `tunnel`. A client's earlier tunnel with
    /// that address loses it: the session of the earlier tunnel was lost, noticed or not.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        client: ClientId,
        wish: Wish,
        tunnel: u64,
    ) -> Result<Granted, PoolError> {
        let known = self.own(client).filter(|_| wish.is_permanent);
        let before = wish
            .before
            .addresses()
            .find_map(|it| self.networks.number(it));
        let before = before.filter(|number| {
            let lease = self.leases.get(number);
            (FIRST..=self.networks.last_free()).contains(number)
                && lease.is_none_or(|lease| lease.client == client && !wish.is_permanent)
                && !self.permanent.contains_key(number)
        });
        let wanted = known.or(before);
        let has_it = |number| self.leases.contains_key(&number);
        let own = self.leases.values().filter(|lease| lease.client == client);
        if own.count() >= MAX_TUNNELS && !wanted.is_some_and(has_it) {
            return Err(PoolError::TooMany);
        }
        let number = match wanted {
            Some(number) => number,
            None => self
                .free()
                .ok_or(PoolError::Exhausted(self.networks.last_free() - GATEWAY))?,
        };
        self.leases.insert(number, Lease { client, tunnel });
        let is_new = wish.is_permanent && known.is_none();
        if is_new {
            self.permanent.insert(number, client);
        }
        let had = self.blocks.of(client);
        let has_block = wish.is_permanent && wish.is_for_hosts;
        let block = has_block.then(|| self.block_for(now, client)).flatten();
        self.blocks.on_used(now, client);
        let own = OwnAddresses {
            number,
            block: block.or(had),
        };
        Ok(Granted {
            number,
            block,
            to_keep: (is_new || own.block != had).then_some(own),
        })
    }

    fn block_for(&mut self, now: Instant, client: ClientId) -> Option<u32> {
        let Self {
            leases, permanent, ..
        } = self;
        let is_there = |client| leases.values().any(|lease| lease.client == client);
        let is_free = |numbers: Range<u32>| {
            leases.range(numbers.clone()).next().is_none()
                && permanent.range(numbers).next().is_none()
        };
        let places = &self.networks.blocks;
        self.blocks.give(now, places, client, is_there, is_free)
    }

    /// Frees an address, if the tunnel still has it.
    pub(super) fn release(&mut self, now: Instant, number: u32, tunnel: u64) {
        if let Some(lease) = self.leases.get(&number).copied()
            && lease.tunnel == tunnel
        {
            self.leases.remove(&number);
            self.blocks.on_used(now, lease.client);
        }
    }

    /// Returns the permanent number of a client.
    fn own(&self, client: ClientId) -> Option<u32> {
        let mut owners = self.permanent.iter();
        owners
            .find(|(_, owner)| **owner == client)
            .map(|(number, _)| *number)
    }

    /// Returns the number that was free for longest, more or less.
    fn free(&mut self) -> Option<u32> {
        let (after, last) = ((self.latest + 1).max(FIRST), self.networks.last_free());
        let mut numbers = (after..=last).chain(FIRST..after.min(last + 1));
        let is_taken =
            |number: &u32| self.leases.contains_key(number) || self.permanent.contains_key(number);
        let number = numbers.find(|number| !is_taken(number))?;
        self.latest = number;
        Some(number)
    }
}

impl Networks {
    /// True if `address` is in a network of the pool.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => self.v4.is_some_and(|net| net.contains(&address)),
            IpAddr::V6(address) => self.v6.is_some_and(|net| net.contains(&address)),
        }
    }

    /// Returns the addresses with a number.
    pub(super) fn addresses(&self, number: u32) -> Inner {
        let v4 = self.v4.map(|net| u32::from(net.network()) + number);
        let v6 = self
            .v6
            .map(|net| u128::from(net.network()) + u128::from(number));
        Inner {
            v4: v4.map(Ipv4Addr::from),
            v6: v6.map(Ipv6Addr::from),
        }
    }

    /// Returns the networks of a block.
    pub(super) fn of_block(&self, block: u32) -> HostNetworks {
        self.blocks.networks(block)
    }

    /// Returns the places to which an address may belong, most likely first. A client that is older
    /// than the blocks may have a number that is now in a block.
    pub(super) fn places(&self, address: IpAddr) -> impl Iterator<Item = AddressHolder> {
        let client = self.number(address).map(AddressHolder::Client);
        let block = self.blocks.block_of(address).map(AddressHolder::Block);
        client.into_iter().chain(block)
    }

    /// Returns the highest number that is given to clients themselves.
    fn last_free(&self) -> u32 {
        self.last.min(self.blocks.base() - 1)
    }

    /// Returns the number of an address in the pool.
    pub(super) fn number(&self, address: IpAddr) -> Option<u32> {
        let number = match address {
            IpAddr::V4(address) => u32::from(address).checked_sub(self.v4?.network().into()),
            IpAddr::V6(address) => u128::from(address)
                .checked_sub(self.v6?.network().into())
                .and_then(|number| u32::try_from(number).ok()),
        };
        number.filter(|number| *number <= self.last)
    }
}

const GATEWAY: u32 = 1;
const FIRST: u32 = 2;
/// More clients than a gateway has sessions.
const MAX_NUMBER: u32 = 65_534;
const MIN_BITS: u8 = 3;
/// Maximum number of tunnels of one client: one for the machine, the others for programs.
const MAX_TUNNELS: usize = 16;
