//! Many scenarios in one go: what one of them fails at is no loss to the others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_types::Rate;

use super::report::Report;
use super::{Options, run};
use crate::scenario::{Direction, Scenario};

/// What became of one scenario: its report, or its name and why there is none.
pub type Finished = Result<Report, (String, anyhow::Error)>;

/// Measures every scenario and hands each result to `done` as soon as it is there.
///
/// Scenarios of which the links carry little run `side_by_side` at once, after the others, which
/// run alone: on a busy machine they would measure the machine.
pub fn run_all(
    scenarios: &[Scenario],
    options: &Options,
    side_by_side: usize,
    done: impl FnMut(Finished) + Send,
) {
    let parallel = |scenario: &&Scenario| side_by_side > 1 && is_slow(scenario);
    let (slow, others): (Vec<_>, Vec<_>) = scenarios.iter().partition(parallel);
    let done = Mutex::new(done);
    let measure = |scenario: &Scenario| {
        let options = Options {
            logs: options.logs.as_ref().map(|logs| logs.join(&scenario.name)),
            ..options.clone()
        };
        let result = run(scenario, &options).map_err(|error| (scenario.name.clone(), error));
        let mut done = done.lock().unwrap_or_else(|e| e.into_inner());
        done(result);
    };
    others.into_iter().for_each(measure);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..side_by_side.min(slow.len()) {
            // A lab's programs end with the thread that started them: one thread for each lab.
            scope.spawn(|| {
                while let Some(scenario) = slow.get(next.fetch_add(1, Ordering::Relaxed)) {
                    measure(scenario);
                }
            });
        }
    });
}

fn is_slow(scenario: &Scenario) -> bool {
    let rate = |direction| scenario.total_rate(direction);
    rate(Direction::Put).max(rate(Direction::Get)) <= SLOW
}

/// A few of these at once leave most of one core free.
const SLOW: Rate = Rate::from_bits_per_second(10_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::no_files;

    #[test]
    fn a_scenario_is_slow_by_all_its_links_in_the_faster_direction() {
        let of = |up: &str, down: &str| {
            let link = format!("[[link]]\nup.rate = \"{up}\"\ndown.rate = \"{down}\"\n");
            let text = format!("payload = \"1MB\"\n{link}{link}");
            is_slow(&Scenario::parse("test", &text, &no_files).unwrap())
        };
        assert!(of("5Mbit/s", "5Mbit/s"));
        assert!(!of("1Mbit/s", "6Mbit/s"));
    }
}
