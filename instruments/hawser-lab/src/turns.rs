//! Runs scenarios one after another, or several at once if the machine has room for them.

use hawser_types::Rate;
use parking_lot::{Condvar, Mutex};

use crate::scenario::{Direction, Scenario};

/// Does the work for every scenario and hands each result to `done` as soon as it is there.
///
/// Scenarios run at once as long as their links carry no more than `together` in all; one that
/// carries more than that by itself runs alone. Those that carry most come first.
pub(crate) fn in_turns<T>(
    scenarios: &[Scenario],
    together: Rate,
    work: impl Fn(&Scenario) -> T + Sync,
    done: impl FnMut(&Scenario, T) + Send,
) {
    let mut waiting: Vec<_> = scenarios.iter().collect();
    waiting.sort_by_key(|scenario| std::cmp::Reverse(load(scenario)));
    let turns = Turns {
        state: Mutex::new(State {
            waiting,
            running: 0,
        }),
        ended: Condvar::new(),
        together,
    };
    let done = Mutex::new(done);
    let threads = match together {
        Rate::ZERO => 1,
        _ => MAX_AT_ONCE.min(scenarios.len()),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // A lab's programs end with the thread that started them: one thread for each lab.
            scope.spawn(|| {
                while let Some(scenario) = turns.next() {
                    let result = work(scenario);
                    turns.state.lock().running -= load(scenario);
                    turns.ended.notify_all();
                    let mut done = done.lock();
                    done(scenario, result);
                }
            });
        }
    });
}

struct Turns<'a> {
    state: Mutex<State<'a>>,
    ended: Condvar,
    together: Rate,
}

struct State<'a> {
    waiting: Vec<&'a Scenario>,
    /// Bits a second of all that run now.
    running: u64,
}

impl<'a> Turns<'a> {
    /// Waits until one of the scenarios that are left may run; nothing when none is left.
    fn next(&self) -> Option<&'a Scenario> {
        let mut state = self.state.lock();
        loop {
            if state.waiting.is_empty() {
                return None;
            }
            let running = state.running;
            let fits = |scenario: &&Scenario| {
                running == 0 || running + load(scenario) <= self.together.bits_per_second()
            };
            if let Some(index) = state.waiting.iter().position(fits) {
                let scenario = state.waiting.remove(index);
                state.running += load(scenario);
                return Some(scenario);
            }
            self.ended.wait(&mut state);
        }
    }
}

/// Bits a second that all links carry in the faster direction.
fn load(scenario: &Scenario) -> u64 {
    let rate = |direction| scenario.total_rate(direction).bits_per_second();
    rate(Direction::Put).max(rate(Direction::Get))
}

/// However little they carry, each lab has threads and programs of its own.
const MAX_AT_ONCE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::no_files;

    fn scenarios(rates: &[u64]) -> Vec<Scenario> {
        let of = |rate: &u64| {
            let text = format!("payload = \"1MB\"\n[[link]]\nrate = \"{rate}Mbit/s\"\n");
            Scenario::parse(&rate.to_string(), &text, &no_files).unwrap()
        };
        rates.iter().map(of).collect()
    }

    #[test]
    fn every_scenario_has_its_turn_and_together_they_stay_below_the_rate() {
        let all = scenarios(&[10, 90, 30, 200, 20, 60, 40]);
        let running = Mutex::new(0);
        let mut names = Vec::new();
        in_turns(
            &all,
            Rate::from_bits_per_second(100_000_000),
            |scenario| {
                let own = scenario.name.parse::<u64>().unwrap();
                let now = {
                    let mut running = running.lock();
                    *running += own;
                    *running
                };
                assert!(now <= 100 || now == own, "{now} with {own}");
                std::thread::sleep(std::time::Duration::from_millis(5));
                *running.lock() -= own;
            },
            |scenario, ()| names.push(scenario.name.clone()),
        );
        names.sort();
        assert_eq!(names, ["10", "20", "200", "30", "40", "60", "90"]);
    }

    #[test]
    fn without_a_rate_they_run_one_after_another_from_the_fastest() {
        let mut order = Vec::new();
        let all = scenarios(&[10, 200, 30]);
        in_turns(
            &all,
            Rate::ZERO,
            |_| (),
            |scenario, ()| order.push(scenario.name.clone()),
        );
        assert_eq!(order, ["200", "30", "10"]);
    }
}
