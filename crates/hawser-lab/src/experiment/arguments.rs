//! What experiments are asked for on the command line.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hawser_types::Rate;

use super::{Common, Findings, begin};
use crate::measure::Programs;
use crate::scenario::{self, Direction, Scenario};

/// Which scenarios to measure, and how many at once.
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

/// An experiment in each of several scenarios, with options of its own.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments<O: clap::Args> {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: O,
}

impl<O: clap::Args + Sync> Arguments<O> {
    /// Measures all scenarios by `run`, whose logs go to the folder that it is given.
    pub(crate) fn execute<F: Findings + Send>(
        self,
        run: impl Fn(&Scenario, &O, &Programs, &Path) -> anyhow::Result<F> + Sync,
    ) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        let measure =
            |scenario: &Scenario, folder: &Path| run(scenario, &self.options, &programs, folder);
        self.common.measure_all(&self.several, measure)
    }
}

/// An experiment in one scenario, with options of its own, which name that too.
#[derive(Debug, clap::Args)]
pub(crate) struct Single<O: clap::Args> {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    pub(crate) options: O,
}

impl<O: clap::Args + Sync> Single<O> {
    /// Measures that scenario by `run`, whose logs go to the folder that it is given.
    pub(crate) fn execute<F: Findings + Send>(
        self,
        scenario: impl Fn(&O) -> &Path,
        run: impl Fn(&Scenario, &O, &Programs, &Path) -> anyhow::Result<F> + Sync,
    ) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        let scenario = scenario::load(scenario(&self.options))?;
        begin()?;
        let measure =
            |scenario: &Scenario, folder: &Path| run(scenario, &self.options, &programs, folder);
        self.common.measure_each(&[scenario], None, measure)
    }
}

/// Which ways bytes go.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Directions {
    Put,
    Get,
    Both,
}

impl Directions {
    pub(crate) fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}
