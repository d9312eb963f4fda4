//! Selects, of the addresses that another host names, those to which this host sends: the other
//! host must not be able to make this host scan a network.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use tokio::time::Instant;

use crate::address::{Refusal, classify};
use crate::udp_addresses::MAX_ADDRESSES;

/// The addresses of one other host.
#[derive(Debug, Default)]
pub(super) struct Targets {
    current: Vec<SocketAddr>,
    /// Times at which new addresses were accepted, within the last [`PERIOD`].
    taken: VecDeque<Instant>,
}

impl Targets {
    /// Replaces the addresses that the other host names. Returns the ones to send to: those named
    /// before, and new ones as long as not too many were new lately.
    pub(super) fn choose(&mut self, now: Instant, named: &[SocketAddr]) -> Vec<SocketAddr> {
        self.forget(now);
        let mut chosen: Vec<SocketAddr> = Vec::new();
        for address in named {
            if chosen.contains(address) || chosen.len() == MAX_ADDRESSES {
                continue;
            }
            if !self.current.contains(address) {
                if self.taken.len() == MAX_NEW {
                    continue;
                }
                self.taken.push_back(now);
            }
            chosen.push(*address);
        }
        // The same addresses in another order are no change.
        chosen.sort_unstable();
        self.current.clone_from(&chosen);
        chosen
    }

    /// Returns whether no new address was accepted lately.
    pub(super) fn is_idle(&mut self, now: Instant) -> bool {
        self.forget(now);
        self.taken.is_empty()
    }

    fn forget(&mut self, now: Instant) {
        while let Some(taken) = self.taken.front()
            && now.duration_since(*taken) >= PERIOD
        {
            self.taken.pop_front();
        }
    }
}

/// Returns whether an address is on the internet, or in a network on this machine's own links.
pub(super) fn may_be_sent_to(address: SocketAddr, on_links: &[IpNet]) -> bool {
    let ip = address.ip().to_canonical();
    let is_host = match classify(ip) {
        None => true,
        Some(Refusal::Private | Refusal::CarrierNat) => on_links.iter().any(|it| it.contains(&ip)),
        Some(_) => false,
    };
    is_host && address.port() != 0
}

/// Most new addresses of one host within [`PERIOD`]: enough for four moves with all of its links.
const MAX_NEW: usize = 4 * MAX_ADDRESSES;
const PERIOD: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: u8) -> SocketAddr {
        SocketAddr::from(([8, 8, 8, host], 7443))
    }

    #[test]
    fn a_host_that_names_ever_new_addresses_runs_out_of_them() {
        let (mut targets, begin) = (Targets::default(), Instant::now());
        let mut reached: Vec<SocketAddr> = Vec::new();
        for host in 0..=255 {
            // A duplicate in one list counts once; a new address in each list counts each time.
            let turn = begin + Duration::from_secs(u64::from(host));
            reached.extend(targets.choose(turn, &[at(host), at(host)]));
        }
        assert_eq!(reached.len(), MAX_NEW);
        assert!(!targets.is_idle(begin + PERIOD));
        assert_eq!(targets.choose(begin + PERIOD, &[at(1)]), [at(1)]);
        assert!(targets.is_idle(begin + PERIOD * 3));
    }

    #[test]
    fn what_a_host_has_named_before_is_free_and_a_long_list_is_cut() {
        let (mut targets, now) = (Targets::default(), Instant::now());
        let many: Vec<SocketAddr> = (0..99).map(at).collect();
        for _ in 0..99 {
            assert_eq!(targets.choose(now, &many), many[..MAX_ADDRESSES]);
        }
        assert_eq!(targets.taken.len(), MAX_ADDRESSES);
    }

    #[test]
    fn private_addresses_are_sent_to_on_own_links_and_nothing_of_this_machine() {
        let near = ["192.168.1.0/24", "127.0.0.0/8", "fd00:1::/64", "fe80::/64"];
        let near = near.map(|it| it.parse::<IpNet>().unwrap());
        let may = |address: &str| may_be_sent_to(address.parse().unwrap(), &near);
        assert!(may("8.8.8.8:1") && may("[2600::1]:1"));
        assert!(may("192.168.1.7:1") && may("[fd00:1::7]:1") && may("[::ffff:192.168.1.7]:1"));
        assert!(!may("192.168.2.7:1") && !may("10.0.0.1:1") && !may("100.64.0.1:1"));
        assert!(!may("127.0.0.1:1") && !may("[::1]:1") && !may("[fe80::1]:1"));
        assert!(!may("169.254.169.254:1") && !may("224.0.0.1:1") && !may("0.0.0.0:1"));
        assert!(!may("8.8.8.8:0") && !may("[fd00:2::7]:1"));
    }
}
