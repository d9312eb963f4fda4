//! How times are spread.

use serde::Serialize;

/// Extremes and percentiles of some times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Nothing of nothing.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: percentile(&sorted, 50)?,
            p90: percentile(&sorted, 90)?,
            p99: percentile(&sorted, 99)?,
            max: *sorted.last()?,
        })
    }
}

/// The smallest value that at least `percent` of a hundred values do not exceed (nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_of_its_nearest_rank() {
        let values: Vec<f64> = (1..=500).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(250.0));
        assert_eq!(percentile(&values, 90), Some(450.0));
        assert_eq!(percentile(&values, 99), Some(495.0));
        assert_eq!(percentile(&values, 100), Some(500.0));
    }

    #[test]
    fn a_percentile_of_few_values_is_one_of_them() {
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[7.0], 0), Some(7.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 50), Some(2.0));
    }

    #[test]
    fn a_spread_does_not_depend_on_the_order_of_samples() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        let Spread {
            min, median, max, ..
        } = spread;
        assert_eq!((min, median, max), (1.0, 2.0, 3.0));
    }
}
