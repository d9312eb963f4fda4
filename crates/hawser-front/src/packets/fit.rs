//! Check of the inner addresses that a gateway gives to a client.
//!
//! The inner addresses become addresses of this machine. A gateway that could choose any address
//! would take the place of hosts that this machine wants to reach.

use std::net::IpAddr;

use ipnet::IpNet;

use super::inbound::InboundFlows;
use super::terms::Terms;
use crate::address::classify;

/// Why an address or network of the gateway's terms is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// The address or network belongs to other hosts.
    #[error(
        "the gateway gives the inner address {0}; allowed are private ones (10.0.0.0/8, \
         172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7), and public ones with \
         --accept-inbound, in networks of at most a /16 or /48"
    )]
    NotPrivate(IpNet),
    /// The address or network is already near this machine.
    #[error(
        "the gateway gives the inner address {0}, but {1} is on a link of this machine, its router \
         or name server; the gateway needs another network in --packet-pool"
    )]
    Near(IpNet, IpNet),
}

/// Checks that all addresses of a tunnel are private; public ones are allowed where `inbound` flows
/// are accepted.
pub(super) fn check(terms: &Terms, inbound: InboundFlows) -> Result<(), Unfit> {
    let of_gateway = terms.gateway.addresses().map(IpNet::from);
    let mut all = terms.of_client().into_iter().chain(of_gateway);
    let is_open = inbound == InboundFlows::Accepted;
    let is_fit = |net: &IpNet| !is_vast(net) && (is_private(net) || (is_open && is_public(net)));
    match all.find(|net| !is_fit(net)) {
        Some(unfit) => Err(Unfit::NotPrivate(unfit)),
        None => Ok(()),
    }
}

/// Checks that no address of either end of a tunnel is in one of the networks `near` this machine.
///
/// # Errors
/// The first address that is in one of the networks, with the network.
pub fn check_apart(terms: &Terms, near: &[IpNet]) -> Result<(), Unfit> {
    let ends = terms.client.addresses().chain(terms.gateway.addresses());
    let mut ends = ends.map(IpNet::from);
    match ends.find_map(|own| Some((own, overlapping(own, near)?))) {
        Some((own, near)) => Err(Unfit::Near(own, near)),
        None => Ok(()),
    }
}

/// Returns the first of the networks `near` that overlaps with `own`.
pub(super) fn overlapping(own: IpNet, near: &[IpNet]) -> Option<IpNet> {
    let mut near = near.iter();
    let found = near.find(|net| net.contains(&own) || own.contains(*net));
    found.copied()
}

/// Tells whether all of a network is private: RFC 1918, RFC 6598, RFC 4193.
fn is_private(net: &IpNet) -> bool {
    let is_in = |block: &str| {
        let block: Result<IpNet, _> = block.parse();
        block.is_ok_and(|block| block.contains(net))
    };
    PRIVATE.into_iter().any(is_in)
}

/// Tells whether a network is larger than any that a client is given: it would take the place of
/// other hosts that this machine may want to reach.
fn is_vast(net: &IpNet) -> bool {
    let shortest = match net {
        IpNet::V4(_) => 16,
        IpNet::V6(_) => 48,
    };
    net.prefix_len() < shortest
}

/// Tells whether a network has addresses of hosts on the internet.
fn is_public(net: &IpNet) -> bool {
    let is_host = |address: IpAddr| classify(address).is_none();
    is_host(net.network()) && is_host(net.broadcast())
}

const PRIVATE: [&str; 5] = [
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "fc00::/7",
];

#[cfg(test)]
mod tests {
    use super::super::terms::{HostNetworks, Inner};
    use super::*;

    /// Terms with this address or network for the client.
    fn terms(own: &str) -> Terms {
        let net: IpNet = own.parse().unwrap();
        let mut terms = Terms {
            client: Inner::default(),
            hosts: HostNetworks::default(),
            gateway: Inner::default(),
            mtu: 1400,
        };
        match net {
            IpNet::V4(net) if net.prefix_len() == 32 => terms.client.v4 = Some(net.addr()),
            IpNet::V6(net) if net.prefix_len() == 128 => terms.client.v6 = Some(net.addr()),
            IpNet::V4(net) => terms.hosts.v4 = Some(net),
            IpNet::V6(net) => terms.hosts.v6 = Some(net),
        }
        terms
    }

    #[test]
    fn inner_addresses_are_private_or_public_where_that_is_wanted() {
        for (own, closed, open) in [
            ("10.83.0.2/32", true, true),
            ("172.31.255.255/32", true, true),
            ("192.168.77.2/32", true, true),
            ("100.127.0.1/32", true, true),
            ("fd48::2/128", true, true),
            ("10.83.128.0/26", true, true),
            ("fd48::1:0/112", true, true),
            ("10.83.0.0/16", true, true),
            ("10.82.0.0/15", false, false),
            ("fd48::/48", true, true),
            ("fd48::/47", false, false),
            ("8.8.8.8/32", false, true),
            ("2600::7/128", false, true),
            ("8.8.8.0/26", false, true),
            ("8.0.0.0/8", false, false),
            ("0.0.0.0/1", false, false),
            ("10.0.0.0/7", false, false),
            ("2600::/32", false, false),
            ("127.0.0.53/32", false, false),
            ("169.254.169.254/32", false, false),
            ("224.0.0.251/32", false, false),
            ("255.255.255.255/32", false, false),
            ("fe80::1/128", false, false),
            ("::1/128", false, false),
            ("::ffff:10.0.0.1/128", false, false),
            ("ff02::1/128", false, false),
        ] {
            let is_fit = |inbound| check(&terms(own), inbound).is_ok();
            assert_eq!(is_fit(InboundFlows::Refused), closed, "{own}");
            assert_eq!(is_fit(InboundFlows::Accepted), open, "{own}");
        }
        let mut gateway = terms("10.83.0.2/32");
        gateway.gateway.v4 = Some([8, 8, 8, 8].into());
        let unfit = check(&gateway, InboundFlows::Refused).unwrap_err();
        assert!(
            unfit.to_string().contains("8.8.8.8/32; allowed are"),
            "{unfit}"
        );
    }

    #[test]
    fn addresses_and_networks_for_hosts_are_of_no_network_that_is_near() {
        let near = ["192.168.77.0/24", "10.0.0.53/32", "fd00:1::/64"];
        let near = near.map(|net| net.parse().unwrap());
        for (own, is_apart) in [
            ("10.83.0.2/32", true),
            ("192.168.77.2/32", false),
            ("192.168.0.0/16", false),
            ("10.0.0.53/32", false),
            ("10.0.0.0/26", false),
            ("fd00:1::9/128", false),
            ("fd00:2::9/128", true),
        ] {
            let net: IpNet = own.parse().unwrap();
            assert_eq!(overlapping(net, &near).is_none(), is_apart, "{own}");
            let is_single = net.prefix_len() == net.max_prefix_len();
            let is_taken = check_apart(&terms(own), &near).is_ok();
            assert_eq!(is_taken, is_apart || !is_single, "{own}");
        }
    }
}
