//! Results of a workload: the same figures whether it was simulated or measured.

mod table;

use std::time::Duration;

use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use crate::{Arrival, Direction, Point, Scenario, Workload};
pub use table::Table;

/// One connection of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Planned start and size.
    pub arrival: Arrival,
    /// Time since the start of the run at which all data had arrived; `None` if it never did.
    pub ended: Option<Duration>,
}

/// Results of one method on one set of links, over several runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The key that its sweep changes.
    pub key: String,
    /// Value of that key.
    pub value: String,
    /// The method's name.
    pub method: String,
    /// The names of the applications, in the order of their times.
    pub applications: Vec<String>,
    /// The runs.
    pub trials: Vec<Trial>,
}

/// One run of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trial {
    /// Seed of its connections.
    pub seed: u64,
    /// Connections that never ended.
    pub unfinished: usize,
    /// Throughput in kbit/s: all requested data, divided by the time until the last of it arrived.
    /// Data that never arrived is left out.
    ///
    /// Source: the measure that fits DBAS §IV; docs/design/connection.md says why.
    pub throughput: f64,
    /// Upper bound in kbit/s: the data requested per second while connections began, or the sum of
    /// the links' rates if that is less. No scheduler exceeds it, and no payload reaches the rates.
    ///
    /// Source: DBAS §II.D (Optimal).
    pub optimal: f64,
    /// Throughput of a single link with the summed payload rate of all links, for the same
    /// requests.
    pub reachable: f64,
    /// Durations of each application's connections.
    pub applications: Vec<Times>,
}

/// Durations of connections in milliseconds; zero without a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Times {
    /// Number of connections that ended.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// 95th percentile, by nearest rank.
    pub p95: f64,
}

/// A mean over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half width of the 95 % confidence interval; `None` for less than two runs.
    pub within: Option<f64>,
}

impl Row {
    /// Creates the results of some runs at a point of a sweep.
    pub fn new(point: &Point, workload: &Workload, method: String, trials: Vec<Trial>) -> Self {
        let applications = workload.applications.iter();
        Self {
            scenario: point.scenario.name.clone(),
            key: point.key.clone(),
            value: point.value.clone(),
            method,
            applications: applications.map(|app| app.name.clone()).collect(),
            trials,
        }
    }

    /// Returns the mean of a figure over the runs.
    pub fn mean(&self, figure: impl Fn(&Trial) -> f64) -> Mean {
        Mean::of(self.trials.iter().map(&figure))
    }

    /// Returns the gain over another row in the same runs.
    pub fn ahead_of(&self, other: &Self) -> Mean {
        let pairs = self.trials.iter().zip(&other.trials);
        Mean::of(pairs.map(|(own, other)| own.throughput - other.throughput))
    }
}

impl Trial {
    /// Computes the figures of one run.
    pub fn of(scenario: &Scenario, workload: &Workload, seed: u64, served: &[Served]) -> Self {
        let ended = served.iter().filter(|one| one.ended.is_some());
        let last = ended.clone().filter_map(|one| one.ended).max();
        let rates = scenario.total_rate(Direction::Get);
        let offered = Rate::over(sizes(served.iter()), workload.span);
        let throughput =
            |bytes, last: Duration| kilobits(Rate::over(bytes, last.max(workload.span)));
        let times = |number| {
            Times::of(
                served
                    .iter()
                    .filter(|one| one.arrival.application == number),
            )
        };
        Self {
            seed,
            unfinished: served.iter().filter(|one| one.ended.is_none()).count(),
            throughput: throughput(sizes(ended), last.unwrap_or_default()),
            optimal: kilobits(offered.min(rates)),
            reachable: throughput(sizes(served.iter()), one_after_another(served, rates)),
            applications: (0..workload.applications.len()).map(times).collect(),
        }
    }
}

impl Times {
    fn of<'a>(served: impl Iterator<Item = &'a Served>) -> Self {
        let took =
            |one: &Served| Some((one.ended?.saturating_sub(one.arrival.at)).as_secs_f64() * 1e3);
        let mut times: Vec<f64> = served.filter_map(took).collect();
        times.sort_by(f64::total_cmp);
        Self {
            count: times.len(),
            // An empty sum is negative zero.
            mean: times.iter().sum::<f64>().abs() / times.len().max(1) as f64,
            p95: percentile(&times, 95).unwrap_or_default(),
        }
    }
}

impl Mean {
    /// Returns the mean of samples, with Student's interval; zero without samples.
    pub fn of(samples: impl Iterator<Item = f64> + Clone) -> Self {
        let count = samples.clone().count();
        let mean = samples.clone().sum::<f64>() / count.max(1) as f64;
        let squares: f64 = samples.map(|sample| (sample - mean).powi(2)).sum();
        let within = count.checked_sub(1).filter(|freedom| *freedom > 0);
        Self {
            mean,
            within: within.map(|freedom| {
                let error = (squares / freedom as f64 / count as f64).sqrt();
                STUDENT[(freedom - 1).min(STUDENT.len() - 1)] * error
            }),
        }
    }
}

/// Returns the value below which `share` hundredths of sorted values lie, by nearest rank; none
/// without values.
pub fn percentile<T: Copy>(sorted: &[T], share: usize) -> Option<T> {
    let rank = (sorted.len() * share).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

fn sizes<'a>(served: impl Iterator<Item = &'a Served>) -> ByteCount {
    served.map(|one| one.arrival.size).sum()
}

/// Returns when all data would have arrived over a single link of this rate that never idles
/// needlessly.
fn one_after_another(served: &[Served], rate: Rate) -> Duration {
    let payload = rate.bytes_per_second() * PAYLOAD.0 / PAYLOAD.1;
    let payload = Rate::from_bytes_per_second(payload);
    let mut free = Duration::ZERO;
    for Served { arrival, .. } in served {
        free = free.max(arrival.at) + payload.time_for(arrival.size).unwrap_or_default();
    }
    free
}

fn kilobits(rate: Rate) -> f64 {
    rate.bits_per_second() as f64 / 1e3
}

/// Payload share of a full TCP packet with time stamps.
const PAYLOAD: (u64, u64) = (1448, 1500);
/// Quantiles of Student's distribution at 0.975, for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_files;

    const TEXT: &str = r#"
        [[link]]
        rate = "2Mbit/s"
        [workload]
        span = "10s"
        [[workload.application]]
        name = "one"
        size = "1MB"
        per-second = 1.0
    "#;

    fn served(at: u64, ended: Option<u64>) -> Served {
        Served {
            arrival: Arrival {
                at: Duration::from_secs(at),
                application: 0,
                size: ByteCount::new(1_000_000),
            },
            ended: ended.map(Duration::from_secs),
        }
    }

    #[test]
    fn throughput_is_all_that_came_over_the_time_until_the_last_of_it() {
        let scenario = Scenario::parse("test", TEXT, &no_files).unwrap();
        let workload = scenario.workload.as_ref().unwrap();
        let all = [
            served(0, Some(20)),
            served(5, Some(10)),
            served(6, Some(16)),
        ];
        let trial = Trial::of(&scenario, workload, 3, &all);
        assert_eq!(trial.throughput, 1200.0);
        // 3 MB in 10 s exceed the link's rate.
        assert_eq!(trial.optimal, 2000.0);
        // From the fifth second on for 2 · 4.144 s.
        assert_eq!(trial.reachable.round(), 1806.0);
        let times = trial.applications[0];
        assert_eq!(
            (times.count, times.mean.round(), times.p95),
            (3, 11667.0, 20000.0)
        );
        // A run that ends early was no faster than its requests.
        let early = Trial::of(
            &scenario,
            workload,
            3,
            &[served(0, Some(4)), served(1, None)],
        );
        assert_eq!((early.throughput, early.unfinished), (800.0, 1));
        assert_eq!(early.optimal, 1600.0);
    }

    #[test]
    fn an_interval_follows_student() {
        let mean = Mean::of([10.0, 12.0, 14.0].into_iter());
        assert_eq!(mean.mean, 12.0);
        // 4.303 · 2 / √3.
        assert!((mean.within.unwrap() - 4.968_7).abs() < 1e-3);
        assert_eq!(
            Mean::of([5.0].into_iter()),
            Mean {
                mean: 5.0,
                within: None
            }
        );
    }

    #[test]
    fn a_percentile_is_the_value_of_its_nearest_rank() {
        let values: Vec<f64> = (1..=500).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(250.0));
        assert_eq!(percentile(&values, 90), Some(450.0));
        assert_eq!(percentile(&values, 99), Some(495.0));
        assert_eq!(percentile(&values, 100), Some(500.0));
    }

    #[test]
    fn a_percentile_of_few_values_is_one_of_them() {
        assert_eq!(percentile::<f64>(&[], 99), None);
        assert_eq!(percentile(&[7.0], 0), Some(7.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 50), Some(2.0));
    }
}
