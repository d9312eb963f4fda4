//! `hawser-lab watchers`.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::experiment::{Common, begin};
use crate::scenario;
use crate::watchers::{self, Links};

#[derive(Debug, clap::Args)]
pub(super) struct WatcherArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/eq-50.toml")]
    scenario: PathBuf,
    /// Take two virtual cables without limits instead, so that processors are the limit
    #[arg(long, conflicts_with = "scenario")]
    unshaped: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: watchers::Options,
}

impl WatcherArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        let links = if self.unshaped {
            Links::Unshaped
        } else {
            Links::Of(Box::new(scenario::load(&self.scenario)?))
        };
        begin()?;
        let place = self.common.place(links.name())?;
        let report = watchers::run(&links, &self.options, &programs, place.path())?;
        self.common.finish(&report)
    }
}
