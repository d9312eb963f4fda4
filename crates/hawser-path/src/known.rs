use std::time::Duration;

use hawser_types::Rate;

/// Of which link something is known: its name, and the network that it is attached to (its router's
/// address, or its own network; empty where nothing tells).
pub type LinkKey = (String, String);

/// Capacity of one direction of a link, as it was seen at some time.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct KnownRate {
    /// Rate that it has carried at least.
    pub rate: Rate,
    /// Confidence, from 0 to 1.
    pub confidence: f64,
}

/// Knowledge of a link for later runs; `None` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct KnownLink {
    /// Capacity to send.
    pub up: Option<KnownRate>,
    /// Capacity to receive.
    pub down: Option<KnownRate>,
    /// Its round-trip time while it is empty.
    pub latency: Option<Duration>,
}

impl KnownRate {
    /// Returns the rate with the confidence left at this age: all of it for a day, then half as
    /// much with each week.
    #[must_use]
    pub fn after(self, age: Duration) -> Self {
        let weeks = age.saturating_sub(FRESH).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.weighted(0.5_f64.powf(weeks))
    }

    /// The same with this part of the confidence, from 0 to 1.
    #[must_use]
    pub fn weighted(self, weight: f64) -> Self {
        Self {
            confidence: self.confidence * weight,
            ..self
        }
    }
}

const FRESH: Duration = Duration::from_secs(24 * 3600);
const HALF_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_believed_for_a_day_and_half_as_much_with_each_week() {
        let known = KnownRate {
            rate: Rate::from_bits_per_second(8_000_000),
            confidence: 0.8,
        };
        let after = |days: u64| known.after(Duration::from_secs(days * 24 * 3600));
        assert_eq!(after(1), known);
        assert!((after(8).confidence - 0.4).abs() < 1e-9);
        assert!((after(15).confidence - 0.2).abs() < 1e-9);
        assert_eq!(after(15).rate, known.rate);
        assert_eq!(known.after(Duration::MAX).confidence, 0.0);
    }
}
