//! Short-lived connections to an ordinary web server, through the daemon's port, placed on single
//! links or bonded. (DBAS-E1 to E4)

mod client;
mod hosts;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use hawser_scenario::figures::{Row, Table, Trial};
use parking_lot::Mutex;
use serde::Serialize;

use self::hosts::Method;
use crate::experiment::{Common, Findings, Head, begin};
use crate::measure::Programs;
use crate::scenario::{Point, Workload};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArguments {
    /// Scenario files with a workload
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Runs of each, with seeds from 1
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Only these methods
    #[arg(long, value_delimiter = ',')]
    only: Vec<Method>,
    /// Only these values of a sweep
    #[arg(long, value_delimiter = ',', value_name = "VALUE")]
    values: Vec<String>,
    /// Connections begin for so many seconds, instead of the scenario's span
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: Option<u64>,
    /// Labs at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    at_once: u16,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct ConnectionsReport {
    #[serde(flatten)]
    head: Head,
    rows: Vec<Row>,
    failures: Vec<String>,
}

/// One run.
struct Run<'a> {
    point: &'a Point,
    workload: Workload,
    method: Method,
    seed: u64,
}

impl ConnectionArguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        let scenarios = self
            .scenarios
            .iter()
            .map(|path| Point::load(path, &|file| std::fs::read_to_string(file)));
        let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
        begin()?;
        let mut whole = true;
        for points in &scenarios {
            let report = self.measure(points, &programs)?;
            whole &= report.failures.is_empty();
            self.common.finish(&report)?;
        }
        Ok(if whole {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn measure(&self, points: &[Point], programs: &Programs) -> anyhow::Result<ConnectionsReport> {
        let runs = self.runs(points)?;
        let name = &points.first().context("no scenario")?.scenario.name;
        let place = self.common.place(name)?;
        let results = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.at_once {
                scope.spawn(|| {
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // A lab's programs end with the thread that started them.
                        let trial = run.measure(programs, place.path());
                        let mut results = results.lock();
                        results.push((run, trial));
                    }
                });
            }
        });
        let results = results.into_inner();
        Ok(ConnectionsReport::of(name, results))
    }

    fn runs<'a>(&self, points: &'a [Point]) -> anyhow::Result<Vec<Run<'a>>> {
        let mut runs = Vec::new();
        for point in points {
            let name = &point.scenario.name;
            if !(self.values.is_empty()
                || point.value.is_empty()
                || self.values.contains(&point.value))
            {
                continue;
            }
            let workload = point.scenario.workload.clone();
            let mut workload = workload.with_context(|| format!("{name} has no workload"))?;
            if let Some(seconds) = self.seconds {
                workload.span = Duration::from_secs(seconds);
            }
            let methods = match &self.only[..] {
                [] => &Method::ALL[..],
                some => some,
            };
            for method in methods {
                for seed in 1..=self.seeds {
                    runs.push(Run {
                        point,
                        workload: workload.clone(),
                        method: *method,
                        seed,
                    });
                }
            }
        }
        Ok(runs)
    }
}

impl Run<'_> {
    fn name(&self) -> String {
        let (value, method) = (self.point.value.replace('/', "-"), self.method);
        format!("{value} {method} {}", self.seed)
            .trim()
            .replace(' ', "-")
    }

    /// Makes the connections twice in a fresh lab: first some for the daemon to learn from.
    fn measure(&self, programs: &Programs, folder: &Path) -> anyhow::Result<Trial> {
        let folder = folder.join(self.name());
        std::fs::create_dir_all(&folder)?;
        let mut scenario = self.point.scenario.clone();
        scenario.seed = self.seed;
        let mut hosts =
            hosts::Hosts::start(&scenario, &self.workload, self.method, programs, &folder)?;
        let learning = Workload {
            span: self.workload.span / 3,
            ..self.workload.clone()
        };
        client::serve(hosts.client(), &learning.draw(!self.seed))?;
        let served = client::serve(hosts.client(), &self.workload.draw(self.seed))?;
        hosts.check()?;
        let trial = Trial::of(&scenario, &self.workload, self.seed, &served);
        eprintln!(
            "  {}: {:.0} kbit/s, {} unfinished",
            self.name(),
            trial.throughput,
            trial.unfinished
        );
        Ok(trial)
    }
}

impl ConnectionsReport {
    fn of(name: &str, mut results: Vec<(&Run<'_>, anyhow::Result<Trial>)>) -> Self {
        let mut report = Self {
            head: Head::new("connections", name),
            rows: Vec::new(),
            failures: Vec::new(),
        };
        // In the order in which they were asked for.
        results.sort_by_key(|(run, _)| std::ptr::from_ref(*run) as usize);
        for (run, trial) in results {
            let trial = match trial {
                Ok(trial) => trial,
                Err(error) => {
                    report.failures.push(format!("{}: {error:#}", run.name()));
                    continue;
                }
            };
            let method = run.method.to_string();
            let last = report.rows.last_mut();
            match last.filter(|row| row.value == run.point.value && row.method == method) {
                Some(row) => row.trials.push(trial),
                None => report
                    .rows
                    .push(Row::new(run.point, &run.workload, method, vec![trial])),
            }
        }
        report
    }
}

impl Findings for ConnectionsReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let mut text = self
            .head
            .title("connections through the daemon's port, nginx");
        text.push_str(&Table(&self.rows).to_string());
        text
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }
}
