//! Limits of requests per sender, checked before a request is handled.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use hawser_types::Instant;

/// Limits of admitted requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// Requests that one sender may make at once.
    pub burst: u32,
    /// Time after which it may make one more.
    pub pause: Duration,
    /// Remembered senders. All further ones share one allowance.
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

/// Admits a limited number of requests per sender: an IPv4 address, or a /64 of IPv6.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    /// Allowances of senders that asked lately.
    senders: BTreeMap<IpAddr, Allowance>,
    /// Allowances of senders that proved their address, and until when they keep their place.
    known: BTreeMap<IpAddr, (Allowance, Instant)>,
    others: Allowance,
    /// Time when full allowances were last removed.
    swept: Instant,
}

/// Allowance of a sender: the time when it is full again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance(Instant);

impl Allowance {
    /// Takes one token of `burst`; each comes back after `pause`. Returns whether one was left.
    pub(crate) fn take(&mut self, now: Instant, burst: u32, pause: Duration) -> bool {
        let next = now.max(self.0) + pause;
        let is_there = next.since(now) <= pause.saturating_mul(burst);
        if is_there {
            self.0 = next;
        }
        is_there
    }
}

impl Admission {
    /// Creates an empty table.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Self {
        Self {
            limits,
            senders: BTreeMap::new(),
            known: BTreeMap::new(),
            others: Allowance::default(),
            swept: Instant::ZERO,
        }
    }

    /// Whether a request from `source` is admitted. If so, it is counted.
    pub fn admit(&mut self, now: Instant, source: IpAddr) -> bool {
        let (burst, pause) = (self.limits.burst, self.limits.pause);
        let sender = sender(source);
        if let Some((own, _)) = self.known.get_mut(&sender) {
            return own.take(now, burst, pause);
        }
        let span = pause.saturating_mul(burst);
        if self.senders.len() >= self.limits.max_senders && now.since(self.swept) >= span {
            self.senders.retain(|_, own| own.0 > now);
            self.swept = now;
        }
        let is_full = self.senders.len() >= self.limits.max_senders;
        let own = match self.senders.get_mut(&sender) {
            Some(own) => own,
            None if is_full => &mut self.others,
            None => self.senders.entry(sender).or_default(),
        };
        own.take(now, burst, pause)
    }

    /// Whether a place is kept for a sender.
    pub(crate) fn knows(&self, source: IpAddr) -> bool {
        self.known.contains_key(&sender(source))
    }

    /// Keeps a place for a sender that proved to be at `source` by answering a challenge: senders
    /// with forged addresses can't take it.
    pub fn keep(&mut self, now: Instant, source: IpAddr) {
        if self.known.len() >= self.limits.max_senders {
            self.known.retain(|_, (_, until)| *until > now);
        }
        let sender = sender(source);
        if self.known.len() < self.limits.max_senders || self.known.contains_key(&sender) {
            let own = self.senders.remove(&sender).unwrap_or_default();
            let (_, until) = self.known.entry(sender).or_insert((own, now));
            *until = now + KEPT;
        }
    }
}

/// Returns the sender of a source: an IPv4 address, or a /64 of IPv6.
pub(crate) fn sender(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = address.to_bits() >> 64 << 64;
            Ipv6Addr::from_bits(prefix).into()
        }
        four => four,
    }
}

/// Longer than a registration that is refreshed.
const KEPT: Duration = Duration::from_secs(7200);

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
    fn a_known_sender_has_its_own_allowance_while_others_forge_addresses() {
        let mut admission = admission(2);
        let of = |number: u32| IpAddr::V4(std::net::Ipv4Addr::from_bits(number));
        assert!(admission.admit(at(10), of(1)));
        admission.keep(at(10), of(1));
        let forged = (2..100).filter(|number| admission.admit(at(10), of(*number)));
        assert_eq!(forged.count(), 2 + 3);
        let own: Vec<_> = (0..3).map(|_| admission.admit(at(10), of(1))).collect();
        assert_eq!(own, [true, true, false]);
        // At most `max_senders` places are kept; expired ones are evicted.
        admission.keep(at(10), of(2));
        admission.keep(at(11), of(3));
        assert!(!admission.known.contains_key(&of(3)));
        admission.keep(at(10_000), of(3));
        assert_eq!(admission.known.len(), 1);
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
        // Senders that were quiet are forgotten.
        assert!(admission.admit(at(20), of(6)));
        assert_eq!(admission.senders.len(), 1);
    }
}
