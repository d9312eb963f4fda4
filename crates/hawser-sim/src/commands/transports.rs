use std::path::PathBuf;

use clap::Args;
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::Options;
use hawser_sim::table::Transports;
use hawser_sim::transports;

use super::arguments::{DirectionChoice, load, show};

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
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl TransportArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let span = std::time::Duration::from_secs(self.seconds);
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            for direction in self.direction.directions() {
                let options = Options {
                    payload: Some(scenario.total_rate(direction) * span),
                    transfers: self.transfers,
                    ..Options::new(scenario.seed, BondConfig::default())
                };
                reports.push(transports::run(&scenario, direction, &options));
            }
        }
        show(self.json, &reports, Transports(&reports))
    }
}
