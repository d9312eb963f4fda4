use std::time::Duration;

use hawser_types::ByteCount;

/// What came to a reader in order, and how long after the transfer began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Rising, with all that had come by then.
    steps: Vec<(Duration, ByteCount)>,
}

impl Arrivals {
    pub(crate) fn note(&mut self, age: Duration, bytes: ByteCount) {
        let total = self.total() + bytes;
        self.steps.push((age, total));
    }

    /// All that has come.
    pub fn total(&self) -> ByteCount {
        self.steps.last().map_or(ByteCount::ZERO, |step| step.1)
    }

    /// What came from the beginning to `age`, including.
    pub fn until(&self, age: Duration) -> ByteCount {
        let count = self.steps.partition_point(|step| step.0 <= age);
        match count.checked_sub(1) {
            Some(last) => self.steps[last].1,
            None => ByteCount::ZERO,
        }
    }

    /// When the last bytes came; nothing before the first.
    pub fn last(&self) -> Option<Duration> {
        self.steps.last().map(|step| step.0)
    }

    /// The longest time between two arrivals of which the later one came after `from`.
    pub fn gap(&self, from: Duration) -> Duration {
        let pairs = self.steps.windows(2).filter(|pair| pair[1].0 > from);
        let longest = pairs.map(|pair| pair[1].0 - pair[0].0).max();
        longest.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_when_it_ends_after_the_moment_asked_for() {
        let ms = Duration::from_millis;
        let mut arrivals = Arrivals::default();
        for age in [100, 400, 420, 500] {
            arrivals.note(ms(age), ByteCount::new(10));
        }
        assert_eq!(arrivals.gap(ms(0)), ms(300));
        assert_eq!(arrivals.gap(ms(399)), ms(300));
        assert_eq!(arrivals.gap(ms(400)), ms(80));
        assert_eq!(arrivals.gap(ms(500)), ms(0));
        let by = |age| arrivals.until(ms(age)).as_u64();
        assert_eq!([by(99), by(100), by(410), by(900)], [0, 10, 20, 40]);
    }
}
