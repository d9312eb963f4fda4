//! `hawser-lab interception`.

use std::process::ExitCode;

use crate::experiment::{Common, begin};
use crate::interception;

#[derive(Debug, clap::Args)]
pub(super) struct InterceptionArguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: interception::Options,
}

impl InterceptionArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        begin()?;
        let place = self.common.place("interception")?;
        self.common
            .finish(&interception::run(&self.options, place.path())?)
    }
}
