//! Guarantees for a session on a set of links, which the lab checks and the simulator tries to
//! violate. Shares are in thousandths.

use std::time::Duration;

use crate::Link;

/// Minimum goodput of a bulk transfer, as a share of the best single link's.
pub const OF_BEST: u64 = 980;
/// Minimum share of the sum that a link has to contribute for its sum to be guaranteed.
pub const LEAST_OF_SUM: u64 = 50;
/// Maximum added delay of an interactive stream beside bulk data, without jitter.
pub const ADDED_DELAY: Duration = Duration::from_millis(30);
/// Maximum gap for a reader when a link fails, beyond one round trip.
pub const FIRST_BYTE: Duration = Duration::from_millis(200);
/// Maximum time from a link's return to the full rate.
pub const FULL_RATE: Duration = Duration::from_millis(1500);
/// Share of the rate before a failure that counts as full.
pub const OF_FULL_RATE: u64 = 950;

/// Returns the minimum goodput of a bulk transfer, as a share of the sum of single links' goodputs,
/// for links with these round-trip times; `None` where they differ too much.
pub fn of_sum(round_trips: impl Iterator<Item = Duration> + Clone) -> Option<u64> {
    let (shortest, longest) = (round_trips.clone().min()?, round_trips.max()?);
    match longest {
        near if near <= shortest * 5 => Some(980),
        far if far <= shortest * 20 => Some(950),
        _ => None,
    }
}

/// Returns the maximum gap for a reader when link `failed`, from 0, fails: [`FIRST_BYTE`] and the
/// round trip of the fastest remaining link.
pub fn longest_gap(links: &[Link], failed: usize) -> Duration {
    let left = links.iter().enumerate().filter(|(link, _)| *link != failed);
    let round_trips = left.map(|(_, link)| link.round_trip());
    FIRST_BYTE + round_trips.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_promised_the_farther_links_are_apart() {
        let of = |all: &[u64]| of_sum(all.iter().copied().map(Duration::from_millis));
        assert_eq!(of(&[50, 10, 30]), Some(980));
        assert_eq!(of(&[51, 10]), Some(950));
        assert_eq!(of(&[10, 200]), Some(950));
        assert_eq!(of(&[10, 201]), None);
        assert_eq!(of(&[0, 0]), Some(980));
        assert_eq!(of(&[]), None);
    }
}
