//! Time from the end of a link's trouble until a transfer is back at full rate.

use std::time::Duration;

use hawser_types::Rate;

use super::TCP_SHARE;
use crate::meter::{BIN, Outcome};
use crate::scenario::{Action, Event};

/// Time from the end of the last trouble until the receiver has half a second at nine tenths of
/// what TCP can carry of `rate`; nothing when there was no trouble or no recovery.
pub(super) fn seconds(outcome: &Outcome, events: &[Event], rate: Rate) -> Option<f64> {
    let ends = |event: &&Event| matches!(event.action, Action::Pass | Action::CarrierUp);
    let end = events.iter().filter(ends).map(|event| event.at).max()?;
    until(
        outcome,
        end,
        rate.bytes_per_second() as f64 * TCP_SHARE * FULL,
    )
}

/// Time from `end` until the receiver has half a second of at least `enough` bytes a second.
pub(crate) fn until(outcome: &Outcome, end: Duration, enough: f64) -> Option<f64> {
    let enough = enough * BIN.as_secs_f64() * WINDOW as f64;
    let later = outcome.timeline.get(bin(outcome, end)..)?;
    let full = later
        .windows(WINDOW)
        .position(|bins| bins.iter().sum::<u64>() as f64 >= enough)?;
    Some(full as f64 * BIN.as_secs_f64())
}

/// Bytes a second that the receiver had in the second before `at`; nothing when it is too early.
pub(crate) fn before(outcome: &Outcome, at: Duration) -> Option<f64> {
    let last = bin(outcome, at);
    let bins = outcome.timeline.get(last.checked_sub(2 * WINDOW)?..last)?;
    Some(bins.iter().sum::<u64>() as f64)
}

/// The bin of a time since the transfer began: the timeline begins with the first bytes, just after
/// the connection stood.
pub(crate) fn bin(outcome: &Outcome, at: Duration) -> usize {
    let shift = Duration::from_secs_f64(outcome.connect_seconds.clamp(0.0, 60.0));
    let bin = at.saturating_sub(shift).as_millis() / BIN.as_millis();
    usize::try_from(bin).unwrap_or(usize::MAX)
}

/// Half a second of bins.
const WINDOW: usize = 10;
const FULL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(timeline: Vec<u64>) -> Outcome {
        Outcome {
            ok: true,
            timeline,
            ..Outcome::default()
        }
    }

    fn pass_at(seconds: u64) -> Vec<Event> {
        vec![Event {
            at: Duration::from_secs(seconds),
            link: 0,
            action: Action::Pass,
        }]
    }

    #[test]
    fn counts_from_the_end_of_the_trouble_to_the_first_full_half_second() {
        let rate: Rate = "8Mbit/s".parse().unwrap();
        // 1 MB/s is 50 kB a bin: full for a second, half for two, then full again.
        let mut bins = vec![50_000; 20];
        bins.extend([25_000; 40]);
        bins.extend([50_000; 20]);
        let seen = seconds(&outcome(bins.clone()), &pass_at(2), rate).unwrap();
        assert!((0.8..=1.0).contains(&seen), "{seen}");
        bins.truncate(55);
        assert_eq!(seconds(&outcome(bins), &pass_at(2), rate), None);
    }

    #[test]
    fn the_rate_before_is_that_of_one_second() {
        let mut bins = vec![1; 20];
        bins.extend([50; 20]);
        let outcome = outcome(bins);
        assert_eq!(before(&outcome, Duration::from_secs(2)), Some(1000.0));
        assert_eq!(before(&outcome, Duration::from_millis(900)), None);
        assert_eq!(before(&outcome, Duration::from_secs(9)), None);
    }

    #[test]
    fn without_trouble_there_is_no_recovery() {
        assert_eq!(seconds(&outcome(vec![1; 10]), &[], Rate::ZERO), None);
    }
}
