//! `hawser-lab unshaped`.

use std::process::ExitCode;

use hawser_types::ByteCount;

use crate::experiment::{Common, Directions, begin};
use crate::unshaped;

#[derive(Debug, clap::Args)]
pub(super) struct UnshapedArguments {
    #[command(flatten)]
    common: Common,
    /// Bytes of each transfer
    #[arg(long, default_value = "4GB")]
    size: ByteCount,
    /// Repetitions of each transfer
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    direction: Directions,
    /// Only these, as the table names them, such as "mptcp,library plain"
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave Hawser's proxies out
    #[arg(long)]
    no_hawser: bool,
}

impl UnshapedArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let hawser = (!self.no_hawser)
            .then(|| self.common.programs())
            .transpose()?;
        begin()?;
        let place = self.common.place("unshaped")?;
        let report = unshaped::run(
            &unshaped::Options {
                bytes: self.size,
                repeat: self.repeat.max(1),
                directions: self.direction.directions(),
                only: self.only,
                hawser,
                transport: self.common.transport(),
            },
            place.path(),
        )?;
        self.common.finish(&report)
    }
}
