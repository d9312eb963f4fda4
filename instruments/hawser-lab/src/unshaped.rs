//! Links without limits: capacity of the machine, and its cost for each process.

mod candidates;
mod options;
mod report;
mod table;

use std::collections::BTreeMap;
use std::path::Path;

use self::candidates::Candidate;
use self::options::LINKS;
use self::report::{Row, UnshapedReport};
use crate::cpu;
use crate::experiment::{Findings, Head, named};
use crate::measure::Bench;
use crate::meter::Outcome;
use crate::scenario::Direction;
use crate::statistics::median;
use crate::topology::Lab;

pub(crate) use options::Options;

/// Measures plain TCP, MPTCP, two relays, Hawser's proxies and its library over two virtual cables.
pub(crate) fn run(options: &Options, folder: &Path) -> anyhow::Result<UnshapedReport> {
    let bench = Bench::new(Lab::unshaped(LINKS)?, folder)?;
    let mut rows = Vec::new();
    for &direction in &options.directions {
        rows.extend(measure(options, &bench, direction));
    }
    Ok(UnshapedReport {
        head: Head::new("unshaped", "cables"),
        repeat: options.repeat,
        payload: options.bytes.as_u64(),
        rows,
    })
}

impl Findings for UnshapedReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let of = |row: &Row| {
            named(
                &format!("{} {}", row.direction.name(), row.by),
                &row.failures,
            )
        };
        self.rows.iter().flat_map(of).collect()
    }
}

/// All kinds of transfer in one direction, in turns: what else the machine does meanwhile falls on
/// each of them.
fn measure(options: &Options, bench: &Bench, direction: Direction) -> Vec<Row> {
    let mut kinds = Vec::new();
    for started in candidates::start(options, bench, direction) {
        kinds.push(match started {
            Ok(candidate) => (candidate.by, Tally::default(), Some(candidate)),
            Err((by, error)) => {
                let failed = Tally {
                    failures: vec![error.to_string()],
                    ..Tally::default()
                };
                (by, failed, None)
            }
        });
    }
    if !options.only.is_empty() {
        kinds.retain(|(by, _, _)| options.only.iter().any(|wanted| wanted == by));
    }
    for _ in 0..options.repeat {
        for (_, tally, candidate) in &mut kinds {
            if let Some(candidate) = candidate {
                tally.measure(bench, candidate, direction);
            }
        }
    }
    let tallies = kinds.into_iter().map(|(by, tally, _)| (by, tally));
    let mut rows: Vec<_> = tallies
        .map(|(by, tally)| tally.row(direction, by))
        .collect();
    table::compare(&mut rows);
    rows
}

/// The transfers of one kind.
#[derive(Debug, Default)]
struct Tally {
    speeds: Vec<f64>,
    costs: BTreeMap<&'static str, Vec<f64>>,
    failures: Vec<String>,
}

impl Tally {
    /// Makes one transfer, with an eye on the processes that carry it.
    fn measure(&mut self, bench: &Bench, candidate: &Candidate, direction: Direction) {
        let used = |process: u32| cpu::of(process).unwrap_or_default();
        let watched = candidate.watched.iter();
        let before: Vec<_> = watched.map(|(_, process)| used(*process)).collect();
        match candidate.run(bench) {
            Err(error) => self.failures.push(error.to_string()),
            Ok(outcome) => {
                let by = candidate.by;
                let gbps = outcome.mbps / 1e3;
                eprintln!("  {} {by:<14} {gbps:>7.2} Gbit/s", direction.name());
                for ((name, process), before) in candidate.watched.iter().zip(before) {
                    let spent = used(*process).saturating_sub(before).as_secs_f64();
                    self.note(name, spent, &outcome);
                }
                self.note("client", outcome.cpu_seconds, &outcome);
                self.speeds.push(gbps);
            }
        }
    }

    fn note(&mut self, process: &'static str, seconds: f64, outcome: &Outcome) {
        let gigabytes = outcome.bytes as f64 / 1e9;
        let costs = self.costs.entry(process).or_default();
        costs.push(seconds / gigabytes);
    }

    fn row(self, direction: Direction, by: &'static str) -> Row {
        let costs = self.costs.into_iter();
        Row {
            direction,
            by,
            gbps: median(self.speeds.iter().copied()),
            of: BTreeMap::new(),
            asked: None,
            cpu_per_gigabyte: costs
                .filter_map(|(name, costs)| Some((name, median(costs.into_iter())?)))
                .collect(),
            samples: self.speeds,
            failures: self.failures,
        }
    }
}
