//! `hawser-lab packets-unshaped`.

use std::process::ExitCode;

use crate::experiment::{Common, begin};
use crate::packets::{UnshapedOptions, run_unshaped};

#[derive(Debug, clap::Args)]
pub(super) struct PacketsUnshapedArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: UnshapedOptions,
}

impl PacketsUnshapedArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        begin()?;
        let place = self.common.place("packets-unshaped")?;
        let report = run_unshaped(&self.options, &programs, place.path())?;
        self.common.finish(&report)
    }
}
