//! Ticks that fall together: periodic work of all tasks is done in one go, so that an idle process
//! wakes as seldom as possible.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::clock;

/// Ticks at once, and then at moments that all tickers of the process share: whole numbers of
/// periods since the process's clock began. Missed ticks are not made up for.
#[derive(Debug)]
pub struct Ticks {
    period: Duration,
    next: Instant,
}

impl Ticks {
    /// Creates ticks of this period, which is a millisecond at least.
    pub fn every(period: Duration) -> Self {
        Self {
            period: period.max(Duration::from_millis(1)),
            next: Instant::now(),
        }
    }

    /// Waits for the next tick. May be dropped and called again: no tick is lost.
    pub async fn tick(&mut self) {
        sleep_until(self.next).await;
        self.next = next_after(Instant::now(), self.period);
    }

    /// Puts the next tick off to the next moment of this longer period, since there is little to
    /// look at. Later ticks are as before.
    pub fn put_off(&mut self, period: Duration) {
        self.next = next_after(Instant::now(), period);
    }

    /// Undoes [`Self::put_off`]: there is something to look at again.
    pub fn hurry(&mut self) {
        self.next = self.next.min(next_after(Instant::now(), self.period));
    }
}

/// The next multiple of `period`, counted from the beginning of the clock, after `now`.
pub fn next_after(now: Instant, period: Duration) -> Instant {
    let since = now.saturating_duration_since(clock::began()).as_nanos();
    let period = period.as_nanos().max(1);
    let left = period - since % period;
    now + Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn tickers_that_began_at_different_times_tick_together() {
        let period = Duration::from_millis(500);
        let mut first = Ticks::every(period);
        first.tick().await;
        tokio::time::sleep(Duration::from_millis(130)).await;
        let mut second = Ticks::every(2 * period);
        let begun = Instant::now();
        second.tick().await;
        assert_eq!(Instant::now(), begun);
        second.tick().await;
        let together = Instant::now();
        assert!(together - begun <= 2 * period + Duration::from_millis(1));
        // All ticks missed meanwhile are one tick, at once.
        first.tick().await;
        assert_eq!(Instant::now(), together);
        first.tick().await;
        let half = Instant::now() - together;
        assert!(half <= period + Duration::from_millis(1), "{half:?}");
        first.tick().await;
        second.tick().await;
        assert_eq!(Instant::now() - together, 2 * half);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_that_was_put_off_can_be_hurried() {
        let (period, longer) = (Duration::from_millis(500), Duration::from_secs(2));
        let mut ticks = Ticks::every(period);
        ticks.tick().await;
        ticks.put_off(longer);
        let since = |begun: Instant| Instant::now() - begun;
        ticks.tick().await;
        let begun = Instant::now();
        ticks.put_off(longer);
        ticks.tick().await;
        assert_eq!(since(begun).as_millis(), longer.as_millis());
        ticks.put_off(longer);
        ticks.hurry();
        ticks.tick().await;
        ticks.tick().await;
        assert_eq!(since(begun).as_millis(), (longer + 2 * period).as_millis());
    }

    #[test]
    fn the_next_moment_is_later_than_now() {
        let period = Duration::from_secs(1);
        let now = clock::began() + 7 * period;
        assert_eq!(next_after(now, period), now + period);
        let earlier = now - Duration::from_nanos(1);
        assert_eq!(next_after(earlier, period), now);
    }
}
