//! One crowd, one direction, and the outcome.

use hawser_types::ByteCount;
use serde::Serialize;

use super::client::WatcherOutcome;
use super::options::Crowd;
use super::stage::{Sample, Stage};
use crate::scenario::Direction;
use crate::statistics::interval_of_median;
use crate::statistics::median;
use crate::verdict::{Asked, Verdict};

/// Transfers in pairs, one with a crowd and one without.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Case {
    pub(super) crowd: Crowd,
    pub(super) direction: Direction,
    pub(super) payload: ByteCount,
    /// The median of what the watched one of each pair has of the other's goodput.
    pub(super) of_without: Option<f64>,
    /// The 95 % interval of that median, by the order of the ratios.
    pub(super) interval: Option<[f64; 2]>,
    /// The median over the pairs of what the daemon's memory was larger, in bytes.
    pub(super) memory_added: Option<f64>,
    pub(super) without: Figures,
    pub(super) with: Figures,
    pub(super) seen: WatcherOutcome,
}

/// Transfers of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Figures {
    /// Median goodput.
    pub(super) mbps: Option<f64>,
    /// Median of the longest time without a byte at the receiver, in seconds.
    pub(super) longest_gap: Option<f64>,
    /// Median processor seconds of the daemon per 10^9 bytes of payload.
    pub(super) cpu_per_gigabyte: Option<f64>,
    /// Median of the most resident memory that the daemon had, in bytes.
    pub(super) memory: Option<f64>,
    /// The most descriptors that it had open in any of them.
    pub(super) descriptors: usize,
    samples: Vec<Sample>,
}

/// Two transfers beside each other, and what those who looked at one of them saw.
struct Pair {
    without: Sample,
    with: Sample,
    seen: WatcherOutcome,
}

impl Case {
    /// Measures pair after pair; the order changes each time. A transfer that fails is reported,
    /// and its pair left out.
    pub(super) fn measure(
        stage: &mut Stage<'_>,
        crowd: Crowd,
        what: (Direction, ByteCount),
        failures: &mut Vec<String>,
    ) -> Self {
        let mut pairs = Vec::new();
        for round in 0..stage.options.rounds {
            let name = format!("{} {}", crowd.name(), what.0.name());
            match Pair::measure(stage, crowd, what, round % 2 == 1) {
                Ok(pair) => {
                    let (without, with) = (pair.without.mbps, pair.with.mbps);
                    eprintln!("  {name}: {without:>8.2} Mbit/s, with them {with:>8.2} Mbit/s");
                    pairs.push(pair);
                }
                Err(error) => failures.push(format!("{name}, round {}: {error:#}", round + 1)),
            }
        }
        Self::of(crowd, what, pairs)
    }

    fn of(crowd: Crowd, (direction, payload): (Direction, ByteCount), pairs: Vec<Pair>) -> Self {
        let ratio = |pair: &Pair| pair.with.mbps / pair.without.mbps;
        let ratios: Vec<f64> = pairs.iter().map(ratio).collect();
        let added = |pair: &Pair| pair.with.memory as f64 - pair.without.memory as f64;
        let samples = |of: fn(&Pair) -> Sample| Figures::of(pairs.iter().map(of).collect());
        Self {
            crowd,
            direction,
            payload,
            of_without: median(ratios.iter().copied()),
            interval: interval_of_median(&ratios),
            memory_added: median(pairs.iter().map(added)),
            without: samples(|pair| pair.without),
            with: samples(|pair| pair.with),
            seen: pairs
                .into_iter()
                .map(|pair| pair.seen)
                .reduce(WatcherOutcome::and)
                .unwrap_or_default(),
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.crowd.name(), self.direction.name())
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let case = |what: &str, figure: f64, asked: Asked| {
            Verdict::new(format!("{}: {what}", self.name()), figure, asked)
        };
        let memory = self.memory_added.unwrap_or(f64::NAN);
        let held = self.with.descriptors as f64 - self.without.descriptors as f64;
        let mut verdicts = vec![
            case(
                "of without",
                self.of_without.unwrap_or(f64::NAN),
                Asked::AtLeast(LEAST_OF_WITHOUT),
            ),
            case("memory added, MB", memory / 1e6, Asked::AtMost(MOST_MEMORY)),
            case("connections added", held, Asked::AtMost(MOST_CONNECTIONS)),
        ];
        match self.crowd {
            Crowd::Stalled => {
                let feeds = self.seen.most_feeds as f64;
                verdicts.push(case("feeds at once", feeds, Asked::AtMost(MOST_FEEDS)));
            }
            Crowd::Flood => {
                let let_in = self.seen.let_in() as f64;
                verdicts.push(case("let in", let_in, Asked::AtMost(0.0)));
            }
            Crowd::Page => {}
        }
        verdicts
    }
}

impl Pair {
    fn measure(
        stage: &mut Stage<'_>,
        crowd: Crowd,
        (direction, payload): (Direction, ByteCount),
        watched_first: bool,
    ) -> anyhow::Result<Self> {
        let earlier = if watched_first {
            None
        } else {
            Some(stage.transfer(direction, payload)?)
        };
        let (with, seen) = stage.transfer_watched(crowd, direction, payload)?;
        let without = match earlier {
            Some(earlier) => earlier,
            None => stage.transfer(direction, payload)?,
        };
        Ok(Self {
            without,
            with,
            seen,
        })
    }
}

impl Figures {
    /// Returns the number of transfers.
    pub(super) fn count(&self) -> usize {
        self.samples.len()
    }

    fn of(samples: Vec<Sample>) -> Self {
        Self {
            mbps: median(samples.iter().map(|sample| sample.mbps)),
            longest_gap: median(samples.iter().map(|sample| sample.longest_gap)),
            cpu_per_gigabyte: median(samples.iter().map(|sample| sample.cpu_per_gigabyte)),
            memory: median(samples.iter().map(|sample| sample.memory as f64)),
            descriptors: samples.iter().map(|it| it.descriptors).max().unwrap_or(0),
            samples,
        }
    }
}

/// A loss of goodput that no user notices.
const LEAST_OF_WITHOUT: f64 = 0.99;
/// Megabytes: all connections with heads and bodies of the largest size, and as much again.
const MOST_MEMORY: f64 = 10.0;
/// The daemon's limits, as docs/control-api.md has them: as many again may be about to leave.
const MOST_CONNECTIONS: f64 = 128.0;
const MOST_FEEDS: f64 = 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn case(crowd: Crowd, speeds: &[[f64; 2]], seen: &WatcherOutcome) -> Case {
        let sample = |mbps, memory| Sample {
            mbps,
            longest_gap: 0.02,
            cpu_per_gigabyte: 1.0,
            memory,
            descriptors: 30,
        };
        let pair = |[without, with]: &[f64; 2]| Pair {
            without: sample(*without, 10_000_000),
            with: sample(*with, 12_000_000),
            seen: seen.clone(),
        };
        let pairs = speeds.iter().map(pair).collect();
        Case::of(crowd, (Direction::Put, ByteCount::new(1)), pairs)
    }

    #[test]
    fn a_ratio_is_that_of_pairs_whatever_else_changes_from_one_to_the_next() {
        let pairs = [[100.0, 99.5], [50.0, 49.75], [200.0, 199.0]];
        let case = case(Crowd::Page, &pairs, &WatcherOutcome::default());
        assert_eq!(case.of_without, Some(0.995));
        let met: Vec<_> = case.verdicts().iter().map(|verdict| verdict.met).collect();
        assert_eq!(met, [true, true, true]);
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        let case = case(Crowd::Page, &[], &WatcherOutcome::default());
        assert!(!case.verdicts()[0].met);
    }

    #[test]
    fn one_feed_too_many_and_one_stranger_let_in_are_told() {
        let seen = WatcherOutcome {
            most_feeds: 17,
            answers: [("wrong token: 200".to_owned(), 1)].into(),
            ..WatcherOutcome::default()
        };
        for crowd in [Crowd::Stalled, Crowd::Flood] {
            let case = case(crowd, &[[1.0, 1.0]], &seen);
            assert!(!case.verdicts()[3].met, "{crowd:?}");
        }
    }
}
