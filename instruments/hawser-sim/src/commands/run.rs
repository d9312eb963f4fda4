use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use hawser_scenario::{Direction, Scenario};
use hawser_sim::experiment::{self, Options, Singles};
use hawser_sim::table::Table;
use hawser_types::{ByteCount, parse_duration};

use super::arguments::{BondArguments, DirectionChoice, load, show};
use crate::trace;

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Draws what is random, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    /// Which way the payload goes; the scenario's choice by default
    #[arg(long)]
    direction: Option<DirectionChoice>,
    /// Payload of one transfer, instead of the scenario's
    #[arg(long, conflicts_with = "seconds")]
    size: Option<ByteCount>,
    /// As much payload as the links' rates carry in this many seconds
    #[arg(long)]
    seconds: Option<u32>,
    /// Transfers over one session, one after another
    #[arg(long, default_value_t = 2)]
    transfers: usize,
    /// Run an interactive stream beside each transfer: 64 B every 20 ms each way
    #[arg(long)]
    ticks: bool,
    /// Leave out TCP on each link alone
    #[arg(long)]
    no_singles: bool,
    /// Print how the sender and its channels stand, so often, to the error output
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    trace: Option<Duration>,
    /// Write what the sender decided to this file; one scenario, one direction
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl RunArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let directions = match self.direction {
                None => scenario.directions.clone(),
                Some(way) => way.directions(),
            };
            for direction in directions {
                let options = self.options(&scenario, direction);
                let (report, recording) = experiment::record(&scenario, direction, &options);
                reports.push(report);
                if let Some(path) = &self.record {
                    ensure!(
                        reports.len() == 1,
                        "--record is for one run; name one --direction"
                    );
                    std::fs::write(path, recording.to_bytes())
                        .with_context(|| format!("can't write {}", path.display()))?;
                }
            }
        }
        show(self.json, &reports, Table(&reports))
    }

    fn options(&self, scenario: &Scenario, direction: Direction) -> Options {
        let by_time = self.seconds.map(|seconds| {
            let span = Duration::from_secs(seconds.into());
            scenario.total_rate(direction) * span
        });
        Options {
            seed: self.seed.unwrap_or(scenario.seed),
            payload: self.size.or(by_time),
            transfers: self.transfers,
            singles: if self.no_singles {
                Singles::None
            } else {
                Singles::Undisturbed
            },
            ticks: self.ticks,
            observer: self.trace.map(trace::observer),
            bond: match self.record {
                Some(_) => self.bond.recording(),
                None => self.bond.config(),
            },
        }
    }
}
