use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hawser_scenario::Congestion;
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::Options;
use hawser_sim::table::Transports;
use hawser_sim::transports;

use super::arguments::{DirectionChoice, Udp, load, show};

#[derive(Debug, Args)]
pub(crate) struct TransportArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Which way the payload goes
    #[arg(long, default_value = "both")]
    direction: DirectionChoice,
    /// As much payload as the links' rates carry in this many seconds
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Transfers over one session, one after another
    #[arg(long, default_value_t = 2)]
    transfers: usize,
    /// Means of so many runs, each with chance of its own and a second more of payload than the one
    /// before
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// One congestion control for all TCP channels, as where bbr may not be used
    #[arg(long, value_name = "CONTROL")]
    congestion: Option<Congestion>,
    /// What becomes of UDP: everything passes, nothing, a tenth of each link's rate, the last or
    /// nothing after a minute, or 200 kbit/s after four seconds
    #[arg(long, value_name = "FATE", default_value = "passes")]
    udp: Udp,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl TransportArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            for direction in self.direction.directions() {
                let run = |number: u64| {
                    let span = Duration::from_secs(self.seconds + number);
                    let bond = BondConfig {
                        congestion: self.congestion,
                        udp: self.udp.fate(),
                        ..BondConfig::default()
                    };
                    let options = Options {
                        payload: Some(scenario.total_rate(direction) * span),
                        transfers: self.transfers,
                        ..Options::new(scenario.seed + number * SEEDS_APART, bond)
                    };
                    transports::run(&scenario, direction, &options)
                };
                let runs: Vec<_> = (0..self.runs.max(1)).map(run).collect();
                reports.extend(transports::mean(&runs));
            }
        }
        show(self.json, &reports, Transports(&reports))
    }
}

/// Seeds of scenarios are small numbers, so seeds of further runs are different.
const SEEDS_APART: u64 = 1000;
