//! The scenarios to measure.

use std::path::PathBuf;

use hawser_types::Rate;

use crate::scenario::{self, Scenario};

/// The scenarios to measure, and the number at once.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Several {
    /// The scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Measure scenarios at once whose links carry no more than RATE in all
    #[arg(long, value_name = "RATE")]
    pub(super) together: Option<Rate>,
}

impl Several {
    /// Reads all files, before hours are spent on the first; reports are named after them.
    pub(super) fn load(&self) -> anyhow::Result<Vec<Scenario>> {
        let scenarios = self.scenarios.iter().map(|path| scenario::load(path));
        let scenarios = scenarios.collect::<Result<Vec<_>, _>>()?;
        let mut names: Vec<_> = scenarios.iter().map(|scenario| &scenario.name).collect();
        names.sort();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => anyhow::bail!("two scenario files are called {}", pair[0]),
            None => Ok(scenarios),
        }
    }
}
