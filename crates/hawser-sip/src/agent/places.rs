//! Addresses at which this host can perhaps be reached, as candidates.

use std::net::IpAddr;

use crate::fields::Q;
use crate::sdp::{Candidate, CandidateKind};

/// A link of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateLink {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Public address that NAT gives to this link, if it is none of its own addresses.
    pub seen: Option<IpAddr>,
    /// Share of the link's rate in the rates of all links.
    pub share: Q,
}

/// Returns the candidates of a host that accepts sessions at `port`, the preferred ones first.
///
/// The order is IPv6, IPv4 of the internet, then private addresses, which two hosts in one house
/// share. A public address behind NAT is last: it leads to this host only if the translator keeps
/// ports, as those of clouds do, or has a forwarding rule.
#[must_use]
pub fn candidates(places: &[CandidateLink], port: u16) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let own = place.addresses.iter().filter(|it| !is_of_one_link(it));
        for address in own {
            candidates.push(candidate((number, place), *address, None, port));
        }
        let own = place.addresses.iter().find(|it| it.is_ipv4());
        let seen = place.seen.filter(|seen| !place.addresses.contains(seen));
        if let (Some(seen), Some(own)) = (seen, own) {
            candidates.push(candidate((number, place), seen, Some(*own), port));
        }
    }
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.priority));
    let mut told: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        // Two links behind one NAT may have the same public address.
        let is_new = told.iter().all(|it| it.address != candidate.address);
        if is_new && told.len() < MAX_CANDIDATES {
            told.push(candidate);
        }
    }
    told
}

fn candidate(
    (number, place): (usize, &CandidateLink),
    address: IpAddr,
    behind: Option<IpAddr>,
    port: u16,
) -> Candidate {
    let kind = match behind {
        Some(_) => CandidateKind::ServerReflexive,
        None => CandidateKind::Host,
    };
    let family = if address.is_ipv6() { 6 } else { 4 };
    Candidate {
        foundation: format!("{}{number}{family}", kind.as_str()),
        priority: priority(kind, address, place.share),
        address: (address, port).into(),
        kind,
        related: behind.map(|own| (own, port).into()),
        share: Some(place.share),
    }
}

/// RFC 8445 §5.1.2.1: type preference, local preference, component.
fn priority(kind: CandidateKind, address: IpAddr, share: Q) -> u32 {
    let kind = match kind {
        CandidateKind::Host => 126,
        _ => 100,
    };
    let class = match address {
        IpAddr::V6(six) if !six.is_unique_local() => 3,
        IpAddr::V4(four) if !four.is_private() => 2,
        _ => 1,
    };
    let local = class << 14 | u32::from(share.thousandths()) << 3;
    kind << 24 | local << 8 | 255
}

/// Whether an address is valid only on its own link, or on this host.
fn is_of_one_link(address: &IpAddr) -> bool {
    address.is_loopback()
        || match address {
            IpAddr::V4(four) => four.is_link_local(),
            IpAddr::V6(six) => six.is_unicast_link_local(),
        }
}

/// As many candidates as a client tries.
const MAX_CANDIDATES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(addresses: &[&str], seen: Option<&str>, share: u16) -> CandidateLink {
        CandidateLink {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            seen: seen.map(|it| it.parse().unwrap()),
            share: Q::from_thousandths(share).unwrap(),
        }
    }

    fn told(places: &[CandidateLink]) -> Vec<String> {
        let all = candidates(places, 7443);
        assert!(all.iter().all(|it| it.address.port() == 7443));
        all.iter().map(|it| it.address.ip().to_string()).collect()
    }

    #[test]
    fn farther_reaching_addresses_come_first_and_then_faster_links() {
        let places = [
            place(
                &["10.0.0.2", "fe80::1", "fd00::2"],
                Some("198.51.100.7"),
                900,
            ),
            place(&["203.0.113.5", "2001:db8::5"], Some("203.0.113.5"), 100),
        ];
        let order = [
            "2001:db8::5",
            "203.0.113.5",
            "10.0.0.2",
            "fd00::2",
            "198.51.100.7",
        ];
        assert_eq!(told(&places), order);
        let seen = &candidates(&places, 7443)[4];
        assert_eq!(seen.related, Some(([10, 0, 0, 2], 7443).into()));
        assert_eq!(seen.share, Some(places[0].share));
    }

    #[test]
    fn an_address_is_told_once_and_many_are_too_many() {
        let behind_one = place(&["10.0.0.2"], Some("198.51.100.7"), 500);
        let places = [
            behind_one.clone(),
            place(&["10.1.0.2"], Some("198.51.100.7"), 500),
        ];
        assert_eq!(told(&places), ["10.0.0.2", "10.1.0.2", "198.51.100.7"]);
        let many: Vec<String> = (0..100).map(|it| format!("10.0.1.{it}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(told(&[place(&many, None, 1000)]).len(), MAX_CANDIDATES);
    }
}
