use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;
use hawser_scenario::Congestion;
use hawser_sim::experiment::Options;
use hawser_sim::fairness;
use hawser_sim::table::Fairness;

use super::arguments::{BondArguments, DirectionChoice, load, show};

#[derive(Debug, Args)]
pub(crate) struct FairnessArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// The link that is shared, from 1; the others are left out
    #[arg(long, default_value = "1")]
    link: NonZeroUsize,
    /// How many others there are
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    rivals: Vec<NonZeroUsize>,
    /// Which way everything goes
    #[arg(long, default_value = "get")]
    direction: DirectionChoice,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl FairnessArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            let options = Options::new(scenario.seed, self.bond.config());
            for direction in self.direction.directions() {
                for count in &self.rivals {
                    for rival in Congestion::ALL {
                        let rivals = (rival, count.get());
                        let link = self.link.get() - 1;
                        let report = fairness::run(&scenario, direction, link, rivals, &options);
                        reports.push(report.ok_or_else(|| {
                            anyhow::anyhow!("{} has no link {}", path.display(), self.link)
                        })?);
                    }
                }
            }
        }
        show(self.json, &reports, Fairness(&reports))
    }
}
