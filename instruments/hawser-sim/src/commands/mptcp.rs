use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hawser_sim::against_mptcp;
use hawser_sim::experiment::Options;
use hawser_sim::table::BesideMptcp;

use super::arguments::{BondArguments, DirectionChoice, load, show};

#[derive(Debug, Args)]
pub(crate) struct MptcpArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Which way the payload goes
    #[arg(long, default_value = "both")]
    direction: DirectionChoice,
    /// As much payload as the links' rates carry in this many seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Transfers over one session, one after another
    #[arg(long, default_value_t = 2)]
    transfers: usize,
    /// Draws what is random, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl MptcpArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            for direction in self.direction.directions() {
                let span = Duration::from_secs(self.seconds);
                let options = Options {
                    payload: Some(scenario.total_rate(direction) * span),
                    transfers: self.transfers,
                    ..Options::new(self.seed.unwrap_or(scenario.seed), self.bond.config())
                };
                reports.push(against_mptcp::run(&scenario, direction, &options));
            }
        }
        show(self.json, &reports, BesideMptcp(&reports))
    }
}
