use std::path::PathBuf;

use clap::Args;
use hawser_sim::experiment::Options;
use hawser_sim::objects;
use hawser_sim::table::Objects;
use hawser_types::ByteCount;

use super::arguments::{BondArguments, DirectionChoice, load, show};

#[derive(Debug, Args)]
pub(crate) struct ObjectArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Sizes of objects
    #[arg(long, value_delimiter = ',', default_value = "20kB,100kB,1MB")]
    sizes: Vec<ByteCount>,
    /// Objects of each size, one after another
    #[arg(long, default_value_t = 30)]
    count: u64,
    /// Which way they go; both by default
    #[arg(long, default_value = "both")]
    direction: DirectionChoice,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl ObjectArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let options = Options::new(scenario.seed, self.bond.config());
            for direction in self.direction.directions() {
                for size in &self.sizes {
                    let report = objects::run(&scenario, direction, *size, self.count, &options);
                    reports.push(report);
                }
            }
        }
        show(self.json, &reports, Objects(&reports))
    }
}
