//! The search for link sets on which the promise does not hold.

mod draw;

use hawser_scenario::{Direction, Scenario};
use serde::Serialize;

pub use draw::{draw, text};

use crate::bond::BondConfig;
use crate::experiment::{self, Options, Report, Singles};

/// How far a link set is from what is promised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Draws this set again.
    pub seed: u64,
    /// What was measured.
    pub report: Report,
    /// The promise that was kept worst.
    pub promise: Promise,
    /// What was reached of it, in thousandths: below 1000 it is broken.
    pub kept: u64,
    /// In which transfer, from 0.
    pub transfer: usize,
}

/// What is promised of a bulk transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Promise {
    /// At least 0.98 of the best single link, always.
    Best,
    /// At least 0.98 of the sum of the single links, when each gives a twentieth of it and
    /// round-trip times are within 1:5.
    Sum,
    /// At least 0.95 of the sum, within 1:20.
    SumUneven,
}

/// Draws the link set of a seed and measures it.
pub fn try_seed(seed: u64, bond: &BondConfig) -> Finding {
    let (scenario, direction) = draw(seed);
    let options = Options {
        seed: scenario.seed,
        payload: None,
        transfers: 2,
        singles: Singles::Disturbed,
        ticks: false,
        observer: None,
        bond: bond.clone(),
    };
    let report = experiment::run(&scenario, direction, &options);
    judge(seed, &scenario, report)
}

fn judge(seed: u64, scenario: &Scenario, report: Report) -> Finding {
    let sum = sum_promise(scenario, &report);
    let mut worst = (u64::MAX, Promise::Best, 0);
    for (index, transfer) in report.transfers.iter().enumerate() {
        // A transfer that never ended has kept nothing.
        let of_best = transfer.of_best.unwrap_or(0) * 1000 / 980;
        worst = worst.min_by_kept((of_best, Promise::Best, index));
        if let Some((promise, least)) = sum {
            let of_sum = transfer.of_sum.unwrap_or(0) * 1000 / least;
            worst = worst.min_by_kept((of_sum, promise, index));
        }
    }
    let (kept, promise, transfer) = worst;
    Finding {
        seed,
        report,
        promise,
        kept,
        transfer,
    }
}

/// Which part of the sum is promised for a link set, if any.
fn sum_promise(scenario: &Scenario, report: &Report) -> Option<(Promise, u64)> {
    if !scenario.events.is_empty() {
        return None;
    }
    let sum = report.sum()?;
    let all_matter = report
        .singles
        .iter()
        .all(|single| single.best().is_some_and(|best| best * 20 >= sum));
    let round_trips = scenario
        .links
        .iter()
        .map(|link| link.up.delay + link.down.delay);
    let (shortest, longest) = (round_trips.clone().min()?, round_trips.max()?);
    match all_matter {
        true if longest <= shortest * 5 => Some((Promise::Sum, 980)),
        true if longest <= shortest * 20 => Some((Promise::SumUneven, 950)),
        _ => None,
    }
}

trait MinByKept {
    fn min_by_kept(self, other: Self) -> Self;
}

impl MinByKept for (u64, Promise, usize) {
    fn min_by_kept(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

/// The set's links in short, for tables.
pub fn describe(scenario: &Scenario, direction: Direction) -> String {
    let mut words = Vec::new();
    for link in &scenario.links {
        let line = link.line(direction);
        let mut word = format!("{}/{:?}", line.rate, line.delay).replace(' ', "");
        if line.loss.mean > 0.0 {
            word += &format!("/{:.2}%", line.loss.mean * 100.0);
        }
        words.push(word);
    }
    words.join(" + ")
}
