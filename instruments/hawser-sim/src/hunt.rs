//! The search for link sets on which a promise does not hold.

mod draw;
mod judge;
mod promise;

use hawser_scenario::{Direction, Scenario};
use hawser_types::ByteCount;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

pub use draw::{draw, text};
pub use promise::{Kept, Promise};

use crate::bond::BondConfig;
use crate::experiment::{self, Options, Singles, TransferReport};
use crate::failover::{self, Failure};
use crate::objects;

/// What became of the promises on one link set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Finding {
    /// Draws this set again.
    pub seed: u64,
    /// The bulk transfers.
    pub report: TransferReport,
    /// Every promise that the set is good for, the one that was kept worst first.
    pub outcomes: Vec<Kept>,
}

impl Finding {
    /// The promise that was kept worst.
    pub fn worst(&self) -> Option<&Kept> {
        self.outcomes.first()
    }

    /// The promises that were broken.
    pub fn broken(&self) -> impl Iterator<Item = &Kept> {
        self.outcomes.iter().filter(|kept| kept.share < 1000)
    }
}

/// Draws the link set of a seed and measures it: two bulk transfers, and one thing more of
/// objects, an interactive stream and a failure.
pub fn try_seed(seed: u64, bond: &BondConfig) -> Finding {
    let (scenario, direction) = draw(seed);
    let options = Options {
        transfers: 2,
        singles: Singles::Disturbed,
        ..Options::new(scenario.seed, bond.clone())
    };
    let report = experiment::run(&scenario, direction, &options);
    let mut outcomes = judge::bulk(&scenario, &report);
    let rng = &mut SmallRng::seed_from_u64(seed ^ draw::SALT.rotate_left(1));
    match rng.random_range(0..4) {
        0 => {
            let size = OBJECTS[rng.random_range(0..OBJECTS.len())];
            let objects = objects::run(&scenario, direction, size, OBJECT_COUNT, &options);
            outcomes.extend(judge::objects(&objects));
        }
        1 if judge::is_good_for_delay(&scenario) => {
            let options = Options {
                singles: Singles::None,
                transfers: 1,
                ticks: true,
                ..options
            };
            let report = experiment::run(&scenario, direction, &options);
            outcomes.extend(judge::delay(&scenario, direction, &report));
        }
        2 | 3 if judge::is_good_for_failures(&scenario) => {
            let link = rng.random_range(0..scenario.links.len());
            let failure = Failure::ALL[rng.random_range(1..Failure::ALL.len())];
            let report = failover::run(&scenario, direction, link, failure, &options);
            outcomes.extend(
                report
                    .iter()
                    .flat_map(|report| judge::failure(&scenario, report)),
            );
        }
        _ => {}
    }
    outcomes.sort_by_key(|kept| kept.share);
    Finding {
        seed,
        report,
        outcomes,
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

/// Sizes of objects, of which one is drawn.
const OBJECTS: [ByteCount; 3] = [
    ByteCount::new(20_000),
    ByteCount::new(100_000),
    ByteCount::new(1_000_000),
];
const OBJECT_COUNT: u64 = 11;
