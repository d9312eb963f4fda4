//! Limits wrong passwords of clients on other machines.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::time::Instant;

/// Wrong passwords of clients on other machines.
///
/// Each IPv4 address and each IPv6 /64 has ten guesses, and gets one back every ten seconds.
/// Without a guess left, every password counts as wrong, the right one too: otherwise a client that
/// guesses fast would still learn it. Other addresses are not affected.
#[derive(Debug, Default)]
pub(super) struct Guesses(BTreeMap<IpAddr, Guesser>);

#[derive(Clone, Copy, Debug)]
struct Guesser {
    /// Wrong guesses that have not expired yet.
    wrong: u32,
    /// The time up to which guesses have expired.
    forgiven: Instant,
}

impl Guesses {
    /// Tells whether `asker` may try a password now.
    pub(super) fn admits(&mut self, now: Instant, asker: IpAddr) -> bool {
        let guesser = self.0.get_mut(&customer(asker));
        guesser.is_none_or(|guesser| guesser.forgive(now) < ALLOWED)
    }

    /// Notes that `asker` has sent a wrong password.
    pub(super) fn on_wrong(&mut self, now: Instant, asker: IpAddr) {
        let asker = customer(asker);
        if !self.0.contains_key(&asker) {
            self.make_room(now);
        }
        let guesser = self.0.entry(asker).or_insert(Guesser {
            wrong: 0,
            forgiven: now,
        });
        guesser.wrong = (guesser.forgive(now) + 1).min(ALLOWED);
    }

    /// Evicts entries without unexpired guesses; in a full table also the entry with the fewest.
    fn make_room(&mut self, now: Instant) {
        if self.0.len() < MAX_GUESSERS {
            return;
        }
        self.0.retain(|_, guesser| guesser.forgive(now) > 0);
        if self.0.len() >= MAX_GUESSERS {
            let least = self.0.iter().min_by_key(|(_, it)| (it.wrong, it.forgiven));
            if let Some(asker) = least.map(|(asker, _)| *asker) {
                self.0.remove(&asker);
            }
        }
    }
}

impl Guesser {
    /// Expires one guess for every ten seconds that have passed. Returns the number left.
    fn forgive(&mut self, now: Instant) -> u32 {
        let passed = now.saturating_duration_since(self.forgiven);
        let turns = u32::try_from(passed.as_secs() / FORGIVE_EVERY.as_secs()).unwrap_or(u32::MAX);
        self.forgiven += FORGIVE_EVERY.saturating_mul(turns);
        self.wrong = self.wrong.saturating_sub(turns);
        self.wrong
    }
}

/// Returns the range that one customer of a provider has: an IPv4 address, or an IPv6 /64.
fn customer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Most wrong guesses of one address or /64 at once.
const ALLOWED: u32 = 10;
const FORGIVE_EVERY: Duration = Duration::from_secs(10);
/// Each entry takes some 100 bytes.
const MAX_GUESSERS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_are_few_and_come_back_slowly_and_others_have_their_own() {
        let mut guesses = Guesses::default();
        let now = Instant::now();
        let [one, other]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        for _ in 0..ALLOWED {
            assert!(guesses.admits(now, one));
            guesses.on_wrong(now, one);
        }
        assert!(!guesses.admits(now, one) && guesses.admits(now, other));
        assert!(!guesses.admits(now + FORGIVE_EVERY - Duration::from_nanos(1), one));
        assert!(guesses.admits(now + FORGIVE_EVERY, one));
        guesses.on_wrong(now + FORGIVE_EVERY, one);
        assert!(!guesses.admits(now + FORGIVE_EVERY, one));
        let later = now + FORGIVE_EVERY * (ALLOWED + 1);
        for _ in 0..ALLOWED {
            assert!(guesses.admits(later, one));
            guesses.on_wrong(later, one);
        }
        assert!(!guesses.admits(later, one));
    }

    #[test]
    fn all_addresses_of_a_customer_share_their_guesses() {
        let mut guesses = Guesses::default();
        let now = Instant::now();
        for last in 0..u16::try_from(ALLOWED).unwrap() {
            let address = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last);
            guesses.on_wrong(now, address.into());
        }
        assert!(!guesses.admits(now, "2001:db8:0:1::ffff".parse().unwrap()));
        assert!(guesses.admits(now, "2001:db8:0:2::1".parse().unwrap()));
        let mapped = "::ffff:192.0.2.1".parse().unwrap();
        (0..ALLOWED).for_each(|_| guesses.on_wrong(now, mapped));
        assert!(!guesses.admits(now, "192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn many_guessers_take_bounded_memory_and_free_none_who_guesses_much() {
        let mut guesses = Guesses::default();
        let now = Instant::now();
        let busy: IpAddr = "192.0.2.1".parse().unwrap();
        (0..ALLOWED).for_each(|_| guesses.on_wrong(now, busy));
        for number in 0..u32::try_from(3 * MAX_GUESSERS).unwrap() {
            guesses.on_wrong(now, std::net::Ipv4Addr::from_bits(number << 1).into());
        }
        assert!(guesses.0.len() <= MAX_GUESSERS);
        assert!(!guesses.admits(now, busy));
    }
}
