//! Counts of accepted proofs, so that each proof is accepted once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hawser_types::Instant;

use super::nonce::NonceId;

/// Counts (`nc`) of correct proofs, by user and nonce.
///
/// Clients without a password leave no entry. An evicted nonce and all older ones then count as too
/// old, which costs their clients one more challenge.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    lifetime: Duration,
    limits: CountLimits,
    users: BTreeMap<String, OfUser>,
    /// All nonces with their users, the oldest first.
    ages: BTreeSet<(NonceId, String)>,
    /// Latest nonce that was evicted from the table of all users.
    forgotten: Option<NonceId>,
}

/// Limits of remembered nonces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountLimits {
    /// Nonces of one user.
    pub(super) each: usize,
    /// Nonces of all users.
    pub(super) all: usize,
}

#[derive(Clone, Debug, Default)]
struct OfUser {
    nonces: BTreeMap<NonceId, Window>,
    /// Latest nonce of this user that was evicted.
    forgotten: Option<NonceId>,
}

/// Sliding window over the counts of one nonce, because requests may overtake each other.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    highest: u32,
    /// Bit `n` is set if the count `highest - n` was seen.
    seen: u64,
}

impl Counts {
    /// Creates an empty table. A nonce is valid for `lifetime`.
    pub(super) fn new(lifetime: Duration, limits: CountLimits) -> Self {
        Self {
            lifetime,
            limits,
            users: BTreeMap::new(),
            ages: BTreeSet::new(),
            forgotten: None,
        }
    }

    /// Takes the count of a correct proof. Returns whether this count is new.
    pub(super) fn take(&mut self, now: Instant, user: &str, nonce: NonceId, count: u32) -> bool {
        // Expired nonces, which are recognised by their age.
        let lifetime = self.lifetime;
        let is_over = |nonce: &NonceId| now.since(nonce.made()) >= lifetime;
        while self.ages.first().is_some_and(|(nonce, _)| is_over(nonce)) {
            self.forget_oldest();
        }
        let known = self.users.get_mut(user);
        if let Some(window) = known.and_then(|it| it.nonces.get_mut(&nonce)) {
            return window.take(count);
        }
        let of_user = self.users.get(user).and_then(|it| it.forgotten);
        if self.forgotten.max(of_user) >= Some(nonce) {
            return false;
        }
        let mut window = Window::default();
        if !window.take(count) {
            return false;
        }
        let own = self.users.entry(user.to_owned()).or_default();
        own.nonces.insert(nonce, window);
        self.ages.insert((nonce, user.to_owned()));
        if own.nonces.len() > self.limits.each
            && let Some((oldest, _)) = own.nonces.pop_first()
        {
            own.forgotten = Some(oldest);
            self.ages.remove(&(oldest, user.to_owned()));
        }
        if self.ages.len() > self.limits.all
            && let Some(oldest) = self.forget_oldest()
        {
            self.forgotten = self.forgotten.max(Some(oldest));
        }
        true
    }

    fn forget_oldest(&mut self) -> Option<NonceId> {
        let (oldest, user) = self.ages.pop_first()?;
        if let Some(own) = self.users.get_mut(&user) {
            own.nonces.remove(&oldest);
            // An eviction mark of this user is for an older nonce still.
            if own.nonces.is_empty() {
                self.users.remove(&user);
            }
        }
        Some(oldest)
    }
}

impl Window {
    /// Takes a count. Returns whether it is new and still inside the window.
    fn take(&mut self, count: u32) -> bool {
        if count > self.highest {
            let ahead = count - self.highest;
            self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
            self.highest = count;
            return true;
        }
        let behind = self.highest - count;
        let bit = 1_u64.checked_shl(behind).unwrap_or(0);
        let is_new = count > 0 && bit != 0 && self.seen & bit == 0;
        self.seen |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFETIME: Duration = Duration::from_secs(60);

    fn at(second: u64) -> Instant {
        Instant::from_nanos(second * 1_000_000_000)
    }

    fn nonce(second: u64) -> NonceId {
        NonceId::new(at(second), 0)
    }

    fn counts(each: usize, all: usize) -> Counts {
        Counts::new(LIFETIME, CountLimits { each, all })
    }

    #[test]
    fn each_count_is_taken_once_in_any_order_within_the_window() {
        let mut counts = counts(4, 8);
        let mut take = |count| counts.take(at(1), "alice", nonce(1), count);
        assert!(!take(0), "counts begin with one");
        let outcomes = [1, 1, 3, 2, 2, 3, 70, 7, 6, 8, 7, 70].map(&mut take);
        let (new, old) = (true, false);
        // 64 are remembered: 7 to 70.
        let expected = [new, old, new, new, old, old, new, new, old, new, old, old];
        assert_eq!(outcomes, expected);
        assert!(take(u32::MAX) && !take(u32::MAX) && !take(71));
    }

    #[test]
    fn another_user_and_another_nonce_have_counts_of_their_own() {
        let mut counts = counts(4, 8);
        for (user, made) in [("alice", 1), ("bob", 1), ("alice", 2)] {
            assert!(counts.take(at(2), user, nonce(made), 1));
            assert!(!counts.take(at(2), user, nonce(made), 1));
        }
    }

    #[test]
    fn nonces_beyond_the_bounds_take_older_ones_with_them_and_no_proof_counts_twice() {
        let mut counts = counts(2, 3);
        for made in [1, 3, 2] {
            assert!(counts.take(at(4), "alice", nonce(made), 1), "{made}");
        }
        // Alice's first nonce was evicted, and is not accepted again.
        assert!(!counts.take(at(4), "alice", nonce(1), 2));
        assert!(counts.take(at(4), "alice", nonce(2), 2));
        assert!(counts.take(at(4), "bob", nonce(1), 1));
        assert_eq!(counts.ages.len(), 3);
        // Now Bob's nonce is evicted, and all of the same age with it.
        assert!(counts.take(at(4), "eve", nonce(4), 1));
        assert_eq!(counts.ages.len(), 3);
        assert!(!counts.take(at(4), "bob", nonce(1), 2));
        assert!(counts.take(at(4), "alice", nonce(3), 2));
    }

    #[test]
    fn nothing_is_left_when_the_nonces_are_too_old() {
        let mut counts = counts(2, 8);
        for made in 1..6 {
            counts.take(at(6), "alice", nonce(made), 1);
        }
        counts.take(at(66), "bob", nonce(66), 1);
        assert_eq!((counts.users.len(), counts.ages.len()), (1, 1));
    }
}
