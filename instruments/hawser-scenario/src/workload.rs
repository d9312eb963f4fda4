//! Workloads: which applications make connections, how often and how large.

use std::time::Duration;

use hawser_sched::connection::Class;
use hawser_types::{ByteCount, Rate};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Applications of a client that fetch data from a server, each over its own connection.
///
/// Source: DBAS §IV.A.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Period from the start of a run in which connections begin.
    pub span: Duration,
    /// The applications.
    pub applications: Vec<Application>,
}

/// Connections of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Unique name in reports.
    pub name: String,
    /// Class that the rules would set.
    pub class: Class,
    /// Mean size of the server's answer.
    pub size: ByteCount,
    /// Distribution of sizes.
    pub sizes: Sizes,
    /// Connections begun in a second, a Poisson process; 0 to 1000.
    pub per_second: f64,
    /// Connections begun at the start, besides; up to 1000.
    pub at_start: u32,
}

/// Distribution of the sizes of an application's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All are the same.
    #[default]
    Fixed,
    /// Exponentially distributed: many small ones, some of several times the mean.
    Exponential,
}

/// A planned connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time since the start of the run.
    pub at: Duration,
    /// Index of its application, from 0.
    pub application: usize,
    /// Size of the server's answer.
    pub size: ByteCount,
}

impl Workload {
    /// Draws the connections of one run in order of time; equal seeds give equal connections. Each
    /// application has its own random numbers, so that applications do not affect each other.
    pub fn draw(&self, seed: u64) -> Vec<Arrival> {
        let mut all = Vec::new();
        for (number, application) in self.applications.iter().enumerate() {
            let seed = seed.wrapping_mul(1_000_003) ^ number as u64;
            let mut rng = SmallRng::seed_from_u64(seed);
            let arrival = |at, rng: &mut SmallRng| Arrival {
                at,
                application: number,
                size: application.draw_size(rng),
            };
            for _ in 0..application.at_start {
                all.push(arrival(Duration::ZERO, &mut rng));
            }
            let mut at = application.draw_pause(&mut rng);
            while let Some(time) = at.filter(|at| *at < self.span) {
                all.push(arrival(time, &mut rng));
                at = application.draw_pause(&mut rng).map(|pause| time + pause);
            }
        }
        all.sort_by_key(|arrival| arrival.at);
        all
    }

    /// Returns the mean rate of requested data while connections begin.
    pub fn offered(&self) -> Rate {
        let span = self.span.as_secs_f64();
        let bytes = |app: &Application| {
            app.size.as_u64() as f64 * (app.per_second + f64::from(app.at_start) / span)
        };
        let all: f64 = self.applications.iter().map(bytes).sum();
        Rate::from_bytes_per_second(all as u64)
    }
}

impl Application {
    fn draw_size(&self, rng: &mut SmallRng) -> ByteCount {
        match self.sizes {
            Sizes::Fixed => self.size,
            Sizes::Exponential => {
                let size = self.size.as_u64() as f64 * exponential(rng);
                ByteCount::new((size as u64).max(1))
            }
        }
    }

    /// Draws the pause before the next connection; `None` if there is none.
    fn draw_pause(&self, rng: &mut SmallRng) -> Option<Duration> {
        let seconds = exponential(rng) / self.per_second;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// Draws from an exponential distribution with mean one.
fn exponential(rng: &mut SmallRng) -> f64 {
    -(1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        let application = |name: &str, per_second, at_start, sizes| Application {
            name: name.to_owned(),
            class: Class::Bulk,
            size: ByteCount::new(10_000),
            sizes,
            per_second,
            at_start,
        };
        Workload {
            span: Duration::from_secs(1000),
            applications: vec![
                application("often", 13.0, 0, Sizes::Exponential),
                application("once", 0.0, 2, Sizes::Fixed),
            ],
        }
    }

    #[test]
    fn as_many_begin_as_are_asked_for_and_in_order() {
        let drawn = workload().draw(1);
        assert!(drawn.is_sorted_by_key(|arrival| arrival.at));
        assert!(drawn.last().unwrap().at < Duration::from_secs(1000));
        let often = drawn.iter().filter(|arrival| arrival.application == 0);
        // Within four standard deviations of a Poisson process.
        let count = often.clone().count();
        assert!((12_544..=13_456).contains(&count), "{count}");
        let bytes: u64 = often.map(|arrival| arrival.size.as_u64()).sum();
        let mean = bytes / count as u64;
        assert!((9_600..=10_400).contains(&mean), "{mean}");
        let once: Vec<_> = drawn.iter().filter(|a| a.application == 1).collect();
        assert_eq!(once.len(), 2);
        assert!(
            once.iter()
                .all(|a| a.at == Duration::ZERO && a.size.as_u64() == 10_000)
        );
    }

    #[test]
    fn a_seed_gives_the_same_and_more_of_one_application_changes_no_other() {
        let mut other = workload();
        assert_eq!(workload().draw(7), other.draw(7));
        assert_ne!(workload().draw(7), other.draw(8));
        other.applications[1].at_start = 9;
        let first = |all: Vec<Arrival>| -> Vec<_> {
            all.into_iter().filter(|a| a.application == 0).collect()
        };
        assert_eq!(first(workload().draw(7)), first(other.draw(7)));
    }

    #[test]
    fn what_is_offered_counts_what_begins_at_the_start() {
        let offered = workload().offered();
        assert_eq!(offered.bytes_per_second(), 130_020);
    }
}
