//! Growing pauses between failed attempts.

use std::time::Duration;

/// Growing pauses between failed attempts: each is about twice as long as the one before.
///
/// Random jitter makes each up to a quarter shorter or longer. Otherwise, all clients of a gateway
/// that lost it at the same moment would return at the same moments.
#[derive(Debug)]
pub struct BackOff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
    random: u64,
}

impl BackOff {
    /// Creates a back-off whose pauses grow from `shortest` to `longest`, before jitter. Different
    /// `seed`s give different pauses.
    pub fn new(shortest: Duration, longest: Duration, seed: u64) -> Self {
        Self {
            shortest,
            longest,
            next: shortest,
            random: seed,
        }
    }

    /// Returns the pause after one more failure.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        self.with_jitter(pause)
    }

    /// Returns `pause` with jitter; the next pause is unaffected.
    pub fn with_jitter(&mut self, pause: Duration) -> Duration {
        let nanos = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        let shortest = nanos - nanos / 4;
        Duration::from_nanos(shortest.saturating_add(self.random() % (nanos / 2 + 1)))
    }

    /// Restarts with the shortest pause: an attempt succeeded, or conditions changed.
    pub fn reset(&mut self) {
        self.next = self.shortest;
    }

    /// SplitMix64, which accepts any seed.
    ///
    /// Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SHORTEST: Duration = Duration::from_millis(200);
    const LONGEST: Duration = Duration::from_secs(5);

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let mut back_off = BackOff::new(SHORTEST, LONGEST, 7);
        let wanted = [200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        for millis in wanted {
            let pause = back_off.next_pause().as_millis() as u64;
            assert!(
                (millis * 3 / 4..=millis * 5 / 4).contains(&pause),
                "{pause} for {millis}"
            );
        }
        back_off.reset();
        assert!(back_off.next_pause() <= SHORTEST * 5 / 4);
    }

    #[test]
    fn a_thousand_clients_that_fail_together_try_again_at_different_moments() {
        let first = |seed| BackOff::new(SHORTEST, LONGEST, seed).next_pause();
        let pauses: Vec<Duration> = (0..1000).map(first).collect();
        let different: BTreeSet<_> = pauses.iter().collect();
        assert_eq!(different.len(), 1000);
        // About a tenth of the pauses is in each tenth of the span.
        for tenth in 0..10 {
            let from = Duration::from_millis(150 + 10 * tenth);
            let until = from + Duration::from_millis(10);
            let count = pauses
                .iter()
                .filter(|it| (from..until).contains(it))
                .count();
            assert!((50..200).contains(&count), "{count} in tenth {tenth}");
        }
    }

    #[test]
    fn extreme_pauses_do_not_overflow() {
        let mut back_off = BackOff::new(Duration::MAX, Duration::MAX, u64::MAX);
        assert!(back_off.next_pause() > Duration::from_secs(1));
        assert_eq!(back_off.with_jitter(Duration::ZERO), Duration::ZERO);
    }
}
