//! How much one sender may ask for, before anybody looks at what it asks.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hawser_types::Instant;

/// How many requests are let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Requests that one sender may make at once.
    pub burst: u32,
    /// The time after which it may make one more.
    pub pause: Duration,
    /// Senders that are remembered. When there are more, all others share one allowance.
    pub max_senders: usize,
}

impl Default for AdmissionLimits {
    /// 40 requests at once and ten a second; 10,000 senders.
    fn default() -> Self {
        Self {
            burst: 40,
            pause: Duration::from_millis(100),
            max_senders: 10_000,
        }
    }
}

/// Lets requests in, so many for each sender: an IPv4 address, or a /64 of IPv6.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    /// When the allowance of each sender is whole again.
    senders: BTreeMap<IpAddr, Instant>,
    others: Instant,
    /// When those were removed last that are whole again.
    swept: Instant,
}

impl Admission {
    /// Nobody has asked yet.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            senders: BTreeMap::new(),
            others: Instant::ZERO,
            swept: Instant::ZERO,
        }
    }

    /// Whether a request from `source` is let in. If so, it is counted.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        let span = self.limits.pause.saturating_mul(self.limits.burst);
        if self.senders.len() >= self.limits.max_senders && now.since(self.swept) >= span {
            self.senders.retain(|_, whole| *whole > now);
            self.swept = now;
        }
        let sender = sender(source);
        let is_full = self.senders.len() >= self.limits.max_senders;
        let whole = match self.senders.get_mut(&sender) {
            Some(whole) => whole,
            None if is_full => &mut self.others,
            None => self.senders.entry(sender).or_insert(Instant::ZERO),
        };
        let next = now.max(*whole) + self.limits.pause;
        let is_admitted = next.since(now) <= span;
        if is_admitted {
            *whole = next;
        }
        is_admitted
    }
}

/// Whom a source is counted as: an IPv4 address, or a /64 of IPv6.
pub(crate) fn sender(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(prefix).into()
        }
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max_senders: usize) -> Admission {
        Admission::new(AdmissionLimits {
            burst: 3,
            pause: Duration::from_secs(1),
            max_senders,
        })
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn a_sender_has_a_burst_and_then_a_rate() {
        let mut admission = admission(10);
        let source = "192.0.2.1".parse().unwrap();
        let at_once: Vec<_> = (0..5).map(|_| admission.admit(at(10), source)).collect();
        assert_eq!(at_once, [true, true, true, false, false]);
        assert!(admission.admit(at(11), source));
        assert!(!admission.admit(at(11), source));
        assert!(admission.admit(at(11), "192.0.2.2".parse().unwrap()));
    }

    #[test]
    fn addresses_of_one_network_are_one_sender() {
        let mut admission = admission(10);
        let admitted = (0..5)
            .filter(|number| {
                let source = format!("2001:db8::{number}").parse().unwrap();
                admission.admit(at(10), source)
            })
            .count();
        assert_eq!(admitted, 3);
        assert!(admission.admit(at(10), "2001:db8:0:1::".parse().unwrap()));
    }

    #[test]
    fn more_senders_than_are_remembered_share_an_allowance() {
        let mut admission = admission(2);
        let of = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
        let admitted: Vec<_> = (1..=6)
            .map(|number| admission.admit(at(10), of(number)))
            .collect();
        assert_eq!(admitted, [true, true, true, true, true, false]);
        assert_eq!(admission.senders.len(), 2);
        // Those that have been quiet are forgotten.
        assert!(admission.admit(at(20), of(6)));
        assert_eq!(admission.senders.len(), 1);
    }
}
