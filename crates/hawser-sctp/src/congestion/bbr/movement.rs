use std::time::Duration;

use hawser_types::Instant;

/// How far apart the rates are that a path has delivered in the last seconds.
#[derive(Debug, Default)]
pub(super) struct Movement {
    /// Start of the current span.
    since: Instant,
    current: Extremes,
    before: Extremes,
}

/// Lowest and highest rate of a span, in bytes per second; 0 while none is known.
#[derive(Clone, Copy, Debug, Default)]
struct Extremes {
    lowest: u64,
    highest: u64,
}

impl Movement {
    /// Notes the rate of a round that neither probed nor was limited by the application.
    pub(super) fn note(&mut self, now: Instant, rate: u64) {
        if rate == 0 {
            return;
        }
        if now.since(self.since) >= SPAN {
            (self.since, self.before) = (now, std::mem::take(&mut self.current));
        }
        let (lowest, highest) = (rate, rate);
        self.current = self.current.joined(Extremes { lowest, highest });
    }

    /// Tells whether one rate was twice as high as another.
    pub(super) fn is_wide(&self) -> bool {
        let all = self.current.joined(self.before);
        all.lowest > 0 && all.highest >= all.lowest.saturating_mul(2)
    }
}

impl Extremes {
    fn joined(self, other: Self) -> Self {
        let lowest = match (self.lowest, other.lowest) {
            (0, known) | (known, 0) => known,
            (one, other) => one.min(other),
        };
        let highest = self.highest.max(other.highest);
        Self { lowest, highest }
    }
}

/// Rates are compared over this time at least, and twice as long at most.
const SPAN: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rates: &[(u64, u64)]) -> Movement {
        let mut movement = Movement::default();
        for &(second, rate) in rates {
            let now = Instant::from_nanos(1_000_000_000 * (100 + second));
            movement.note(now, rate);
        }
        movement
    }

    #[test]
    fn a_rate_that_doubles_is_wide_until_the_lower_one_is_old() {
        assert!(!after(&[]).is_wide());
        assert!(!after(&[(0, 1_000), (1, 1_900)]).is_wide());
        assert!(after(&[(0, 1_000), (1, 2_000)]).is_wide());
        assert!(after(&[(0, 1_000), (3, 2_000)]).is_wide());
        assert!(!after(&[(0, 1_000), (3, 2_000), (6, 2_000)]).is_wide());
    }

    #[test]
    fn a_rate_of_zero_is_no_rate() {
        assert!(!after(&[(0, 0), (1, 2_000)]).is_wide());
    }
}
