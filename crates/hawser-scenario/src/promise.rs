//! What is promised of a session on a set of links: what the lab judges by, and what the simulator
//! hunts for. Shares are in thousandths.

use std::time::Duration;

use crate::Link;

/// Of the best single link's goodput, what a bulk transfer reaches at least.
pub const OF_BEST: u64 = 980;
/// The part of the sum that a link has to give at least for its sum to be promised.
pub const LEAST_OF_SUM: u64 = 50;
/// How much later an interactive stream may be beside bulk than without it, jitter aside.
pub const ADDED_DELAY: Duration = Duration::from_millis(30);
/// How long a reader may wait when a link fails, beyond one round trip.
pub const FIRST_BYTE: Duration = Duration::from_millis(200);
/// How soon after a link's return the rate is to be full again.
pub const FULL_RATE: Duration = Duration::from_millis(1500);
/// Of the rate before a failure, what is full again.
pub const OF_FULL_RATE: u64 = 950;

/// Of the sum of single links' goodputs, what a bulk transfer reaches at least over links with these
/// round-trip times; nothing where they are too far apart.
pub fn of_sum(round_trips: impl Iterator<Item = Duration> + Clone) -> Option<u64> {
    let (shortest, longest) = (round_trips.clone().min()?, round_trips.max()?);
    match longest {
        near if near <= shortest * 5 => Some(980),
        far if far <= shortest * 20 => Some(950),
        _ => None,
    }
}

/// How long a reader may wait when link `failed`, from 0, fails: [`FIRST_BYTE`] and the round trip of
/// the shortest link that is left.
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
