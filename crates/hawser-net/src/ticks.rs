//! Ticks that fall together: what is looked at every now and then is looked at in one go, so that
//! an idle process is woken as seldom as can be.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::clock;

/// Ticks at once, and then at moments that all tickers of the process have in common: whole numbers
/// of periods since its clock began. Ticks that were missed are not made up for.
#[derive(Debug)]
pub struct Ticks {
    period: Duration,
    next: Instant,
}

impl Ticks {
    /// Ticks of this period, of a millisecond at least.
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
    /// look at. The ticks after it are as before.
    pub fn put_off(&mut self, period: Duration) {
        self.next = next_after(Instant::now(), period);
    }

    /// Takes back what was put off: there is something to look at again.
    pub fn hurry(&mut self) {
        self.next = self.next.min(next_after(Instant::now(), self.period));
    }
}

/// The next of these moments after `now`.
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
        // What was missed meanwhile is one tick, at once.
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
    async fn what_was_put_off_can_be_taken_back() {
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
