//! The choice of the best link for an object over plain TCP.

use std::time::Duration;

use hawser_types::ByteCount;

use super::transfers::Transfers;
use crate::contender::Contender;
use crate::measure::StepError;
use crate::scenario::{Direction, Link};
use crate::statistics::median;

/// The link, from 0, on which plain TCP takes least; tried out among those that by rate and delay
/// could be it.
pub(super) fn find(
    transfers: &Transfers<'_>,
    links: &[Link],
    direction: Direction,
    size: ByteCount,
) -> Result<usize, StepError> {
    let candidates = candidates(links, direction, size);
    if let [only] = candidates.as_slice() {
        return Ok(*only);
    }
    let mut best = (f64::INFINITY, 0);
    for link in candidates {
        for contender in Contender::tcp() {
            let mut times = Vec::new();
            for _ in 0..PILOTS {
                times.push(transfers.run(contender, link, direction, size)?);
            }
            let time = median(times.into_iter()).unwrap_or(f64::INFINITY);
            if time < best.0 {
                best = (time, link);
            }
        }
    }
    Ok(best.1)
}

/// Returns the links that are at least half as good as the best one by rate and delay; of equal
/// links, only the first.
fn candidates(links: &[Link], direction: Direction, size: ByteCount) -> Vec<usize> {
    // A handshake, slow start from ten segments, and the bytes at the link's rate.
    let rounds = (size.as_u64() / FIRST_WINDOW + 1).ilog2() + 2;
    let time = |link: &Link| {
        let sending = link.line(direction).rate.time_for(size);
        link.round_trip() * rounds + sending.unwrap_or(Duration::MAX / 4)
    };
    let Some(best) = links.iter().map(time).min() else {
        return Vec::new();
    };
    let first = |index: usize| links.iter().position(|other| *other == links[index]);
    (0..links.len())
        .filter(|index| time(&links[*index]) <= best * 2 && first(*index) == Some(*index))
        .collect()
}

const PILOTS: u32 = 2;
/// Ten segments of 1448 bytes.
const FIRST_WINDOW: u64 = 14_480;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Scenario, no_files};

    fn candidates_of(links: &str, bytes: u64) -> Vec<usize> {
        let text = format!("payload = \"1MB\"\n{links}");
        let scenario = Scenario::parse("test", &text, &no_files).unwrap();
        candidates(&scenario.links, Direction::Get, ByteCount::new(bytes))
    }

    #[test]
    fn delay_counts_for_small_objects_and_rate_for_large_ones() {
        let near = "[[link]]\nrate = \"2Mbit/s\"\ndelay = \"5ms\"\n";
        let far = "[[link]]\nrate = \"50Mbit/s\"\ndelay = \"100ms\"\n";
        let both = [near, far].concat();
        assert_eq!(candidates_of(&both, 20_000), [0]);
        assert_eq!(candidates_of(&both, 10_000_000), [1]);
    }

    #[test]
    fn one_of_equal_links_stands_for_all() {
        let links = "[[link]]\nrate = \"2Mbit/s\"\n".repeat(3);
        assert_eq!(candidates_of(&links, 20_000), [0]);
    }
}
