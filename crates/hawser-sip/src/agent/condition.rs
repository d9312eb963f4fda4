//! Shares of the addresses, as preferences.

use hawser_types::Rate;

use crate::fields::Q;

/// Returns the share of each link in the sum of all rates, in thousandths that add up to 1000. If
/// no link has a measured rate, all get the same share.
///
/// Source: MMS §II.D eq. 1, f_i = b_i / Σ b.
#[must_use]
pub fn preferences(rates: &[Rate]) -> Vec<Q> {
    let rates: Vec<u128> = if rates.iter().any(|rate| rate.bits_per_second() > 0) {
        rates
            .iter()
            .map(|rate| u128::from(rate.bits_per_second()))
            .collect()
    } else {
        vec![1; rates.len()]
    };
    let sum = rates.iter().sum::<u128>().max(1);
    // Rounds the cumulative sums, so that the shares add up to the whole.
    let up_to = |end: usize| (rates[..end].iter().sum::<u128>() * 1000 + sum / 2) / sum;
    (0..rates.len())
        .map(|place| {
            let share = up_to(place + 1) - up_to(place);
            Q::from_thousandths(share as u16).unwrap_or(Q::ONE)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rates: &[u64]) -> Vec<u16> {
        let rates: Vec<_> = rates
            .iter()
            .map(|rate| Rate::from_bits_per_second(*rate))
            .collect();
        preferences(&rates)
            .into_iter()
            .map(Q::thousandths)
            .collect()
    }

    #[test]
    fn shares_are_the_whole_together() {
        assert_eq!(of(&[4_000_000, 1_000_000]), [800, 200]);
        assert_eq!(of(&[1, 1, 1]), [333, 334, 333]);
        assert_eq!(of(&[0, 0]), [500, 500]);
        assert_eq!(of(&[u64::MAX, u64::MAX, 0]), [500, 500, 0]);
        assert_eq!(of(&[7]), [1000]);
        assert_eq!(of(&[]), [0; 0]);
    }
}
