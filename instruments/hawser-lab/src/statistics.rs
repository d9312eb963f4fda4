//! The spread of times.

use hawser_scenario::figures::percentile;
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
    /// Returns the spread; none without samples.
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

/// The middle value, or the mean of the two middle ones.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[upper]),
        _ => Some(f64::midpoint(values[upper - 1], values[upper])),
    }
}

/// Returns an interval that holds the median of the samples' distribution with 95 % confidence or a
/// little more: between two samples, by the sign test. None for less than six.
pub(crate) fn interval_of_median(samples: &[f64]) -> Option<[f64; 2]> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // How likely it is that just so many are below the median: half to the power of the count at
    // first, then on by the binomial coefficients.
    let mut likelihood = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut below = 0.0;
    let mut rank = 0;
    while rank < count {
        below += likelihood;
        if below > 0.025 {
            break;
        }
        likelihood *= (count - rank) as f64 / (rank + 1) as f64;
        rank += 1;
    }
    let outside = rank.checked_sub(1)?;
    Some([sorted[outside], sorted[count - 1 - outside]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 9.0].into_iter()), Some(3.0));
        assert_eq!(median([4.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        let values = |count: u8| (1..=count).map(f64::from).collect::<Vec<_>>();
        assert_eq!(interval_of_median(&values(5)), None);
        // Ranks as tables of the sign test give them.
        assert_eq!(interval_of_median(&values(6)), Some([1.0, 6.0]));
        assert_eq!(interval_of_median(&values(10)), Some([2.0, 9.0]));
        assert_eq!(interval_of_median(&values(40)), Some([14.0, 27.0]));
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
