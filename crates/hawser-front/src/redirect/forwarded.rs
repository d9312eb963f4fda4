//! Connections of other hosts that this machine would otherwise forward as a router.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hawser_link::links::OwnAddresses;
use parking_lot::Mutex;

use super::{Lookup, Redirected};
use crate::connection::Origin;

/// Finds the original destination of a connection: under the kernel's transparent proxying, the
/// local address of the accepted socket. One host may have at most a quarter of all connections.
///
/// Connections to this machine itself are refused: they were not to be forwarded, so a program has
/// connected to the port directly.
#[derive(Debug, Default)]
pub struct Forwarded {
    own: OwnAddresses,
    hosts: Hosts,
}

/// Number of open connections, by host.
type Hosts = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// Counts one connection of a host as open, until dropped.
#[derive(Debug)]
pub struct HostPlace {
    hosts: Hosts,
    host: IpAddr,
}

impl Forwarded {
    /// Creates the lookup for a machine with these addresses.
    pub fn new(own: OwnAddresses) -> Self {
        Self {
            own,
            hosts: Hosts::default(),
        }
    }

    fn place(&self, host: IpAddr) -> Option<HostPlace> {
        let mut hosts = self.hosts.lock();
        let open = hosts.entry(host).or_default();
        if *open >= MAX_OF_HOST {
            tracing::debug!(%host, "refusing a connection: too many of this host");
            return None;
        }
        *open += 1;
        Some(HostPlace {
            hosts: Arc::clone(&self.hosts),
            host,
        })
    }
}

impl Lookup for Forwarded {
    type Kept = HostPlace;

    fn take(&self, peer: SocketAddr, local: SocketAddr) -> Option<Redirected<HostPlace>> {
        let (host, to) = (peer.ip().to_canonical(), local.ip().to_canonical());
        let is_here = to.is_loopback() || to.is_unspecified() || self.own.contains(to);
        if is_here {
            return None;
        }
        Some(Redirected {
            destination: SocketAddr::new(to, local.port()),
            origin: Origin {
                host: Some(host),
                is_elsewhere: true,
                ..Origin::default()
            },
            kept: self.place(host)?,
        })
    }
}

impl Drop for HostPlace {
    fn drop(&mut self) {
        let mut hosts = self.hosts.lock();
        let open = hosts.entry(self.host).or_default();
        *open = open.saturating_sub(1);
        if *open == 0 {
            hosts.remove(&self.host);
        }
    }
}

/// A quarter of the connections that the ports accept from all hosts together.
const MAX_OF_HOST: usize = crate::proxy::DEFAULT_MAX_CONNECTIONS / 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn where_a_connection_is_accepted_is_where_it_leads() {
        let forwarded = Forwarded::default();
        for to in ["192.0.2.1:443", "[2001:db8::1]:80"] {
            let taken = forwarded.take(address("192.168.1.7:5000"), address(to));
            let taken = taken.unwrap();
            assert_eq!(taken.destination, address(to));
            assert!(taken.origin.is_elsewhere);
            assert_eq!(taken.origin.host, Some("192.168.1.7".parse().unwrap()));
        }
        for to in [
            "127.0.0.1:4000",
            "[::1]:4000",
            "0.0.0.0:1",
            "[::ffff:127.0.0.1]:22",
        ] {
            let taken = forwarded.take(address("192.168.1.7:5000"), address(to));
            assert!(taken.is_none(), "{to}");
        }
    }

    #[test]
    fn one_host_does_not_take_all_places() {
        let forwarded = Forwarded::default();
        let take = |host: &str| forwarded.take(address(host), address("192.0.2.1:443"));
        let flood: Vec<_> = (0..MAX_OF_HOST * 2)
            .map_while(|_| take("192.168.1.7:1"))
            .collect();
        assert_eq!(flood.len(), MAX_OF_HOST);
        assert!(take("192.168.1.8:1").is_some());
        drop(flood);
        assert!(take("192.168.1.7:1").is_some());
        assert!(forwarded.hosts.lock().is_empty());
    }
}
