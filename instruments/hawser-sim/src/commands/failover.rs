use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hawser_sim::experiment::Options;
use hawser_sim::failover::{self, Failure};
use hawser_sim::table::Failovers;
use hawser_types::parse_duration;

use super::arguments::{BondArguments, DirectionChoice, load, show};
use crate::trace;

#[derive(Debug, Args)]
pub(crate) struct FailoverArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// The link that fails, from 1; each in turn by default
    #[arg(long)]
    link: Option<NonZeroUsize>,
    /// What happens to it; everything in turn by default
    #[arg(long)]
    failure: Vec<Failure>,
    /// Which way the payload goes
    #[arg(long, default_value = "both")]
    direction: DirectionChoice,
    /// Draws what is random, instead of the scenario's seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print how the sender and its channels stand, so often, to the error output
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    trace: Option<Duration>,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl FailoverArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let failures = match self.failure.as_slice() {
            [] => &Failure::ALL,
            chosen => chosen,
        };
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let seed = self.seed.unwrap_or(scenario.seed);
            let options = Options {
                observer: self.trace.map(trace::observer),
                ..Options::new(seed, self.bond.config())
            };
            let links = match self.link.map(NonZeroUsize::get) {
                None => 1..=scenario.links.len(),
                Some(link) if link <= scenario.links.len() => link..=link,
                Some(link) => anyhow::bail!("{} has no link {link}", path.display()),
            };
            for direction in self.direction.directions() {
                for link in links.clone() {
                    let fail = |failure: &Failure| {
                        failover::run(&scenario, direction, link - 1, *failure, &options)
                    };
                    reports.extend(failures.iter().filter_map(fail));
                }
            }
        }
        show(self.json, &reports, Failovers(&reports))
    }
}
