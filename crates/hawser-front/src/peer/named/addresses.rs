//! Selects which of a host's named addresses are tried.

use hawser_keys::host_port::HostPort;
use hawser_sip::sdp::Candidate;

use crate::address::{Refusal, classify};

/// Returns the addresses to try, the preferred ones first: those on the internet and in private
/// networks. Two hosts in one house share only a private network. A host in the book can make this
/// host connect to a neighbour's port, but only with a handshake that reveals nothing.
pub(super) fn reachable(candidates: &[Candidate]) -> Vec<HostPort> {
    let mut sorted: Vec<&Candidate> = candidates.iter().collect();
    sorted.sort_by_key(|candidate| std::cmp::Reverse(candidate.priority));
    let mut addresses: Vec<HostPort> = Vec::new();
    for candidate in sorted {
        let address = candidate.address.ip().to_canonical();
        let may_try = match classify(address) {
            None => true,
            Some(refusal) => matches!(refusal, Refusal::Private | Refusal::CarrierNat),
        };
        let port = candidate.address.port();
        if let Some(address) = may_try
            .then(|| HostPort::new(address.into(), port).ok())
            .flatten()
            && !addresses.contains(&address)
            && addresses.len() < MAX_ADDRESSES
        {
            addresses.push(address);
        }
    }
    addresses
}

/// Most addresses that a client tries.
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use hawser_sip::fields::Q;
    use hawser_sip::sdp::CandidateKind;

    use super::*;

    fn candidate(priority: u32, address: &str) -> Candidate {
        Candidate {
            foundation: "1".to_owned(),
            priority,
            address: address.parse().unwrap(),
            kind: CandidateKind::Host,
            related: None,
            share: Some(Q::ONE),
        }
    }

    #[test]
    fn addresses_of_other_hosts_are_tried_and_nothing_of_this_one() {
        let told = [
            candidate(1, "10.0.0.1:7443"),
            candidate(9, "[2600::1]:7443"),
            candidate(8, "127.0.0.1:22"),
            candidate(7, "[::ffff:127.0.0.1]:22"),
            candidate(6, "169.254.169.254:80"),
            candidate(5, "224.0.0.1:7443"),
            candidate(4, "0.0.0.0:7443"),
            candidate(3, "[fe80::1]:7443"),
            candidate(2, "8.8.8.8:0"),
            candidate(2, "8.8.8.8:7443"),
            candidate(1, "[::ffff:8.8.8.8]:7443"),
        ];
        let tried: Vec<_> = reachable(&told).iter().map(HostPort::to_string).collect();
        assert_eq!(tried, ["[2600::1]:7443", "8.8.8.8:7443", "10.0.0.1:7443"]);
        let many: Vec<_> = (1..=99)
            .map(|it| candidate(1, &format!("8.8.8.{it}:1")))
            .collect();
        assert_eq!(reachable(&many).len(), MAX_ADDRESSES);
    }
}
