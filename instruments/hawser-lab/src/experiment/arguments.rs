//! Arguments of experiments on the command line.

use std::path::Path;
use std::process::ExitCode;

use super::common::{Common, begin};
use super::findings::Findings;
use super::scenarios::Several;
use crate::measure::Programs;
use crate::scenario::{self, Scenario};

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
