//! A thousand enrolled clients at one real gateway: their cost while idle, the time until they are
//! back after a restart and after a cut, the fairness between them, and the effect of one hostile
//! client on the others.

mod case;
mod network;
mod report;

use std::path::Path;

use anyhow::bail;

use self::case::Case;
use self::report::Report;
use crate::experiment::{Common, begin};
use crate::meter::MAX_CLIENTS;

/// Options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ThousandOptions {
    #[command(flatten)]
    common: Common,
    /// Number of clients, each with a session of its own
    #[arg(long, default_value_t = 1000)]
    clients: u32,
    /// Number of virtual cables, over which every client has a path
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    links: u8,
    /// Seconds for which all are idle
    #[arg(long, default_value_t = 60)]
    idle: u32,
    /// Seconds for which a tenth of them is busy, without a hostile one and with it
    #[arg(long, default_value_t = 20)]
    busy: u32,
    /// Seconds for which every link is silent
    #[arg(long, default_value_t = 20)]
    cut: u32,
}

impl ThousandOptions {
    pub(crate) fn execute(self) -> anyhow::Result<std::process::ExitCode> {
        if !(20..=MAX_CLIENTS).contains(&self.clients) {
            bail!(
                "--clients is {}, allowed are 20 to {MAX_CLIENTS}",
                self.clients
            );
        }
        begin()?;
        let place = self.common.place("thousand")?;
        let report = self.measure(place.path())?;
        self.common.finish(&report)
    }

    fn measure(&self, folder: &Path) -> anyhow::Result<Report> {
        let programs = self.common.programs()?;
        let mut case = Case::start(self.clients, self.links, &programs, folder)?;
        let mut report = Report::new(self.clients, self.links);
        case.connect(&mut report)?;
        case.idle(&mut report, self.idle)?;
        case.load(&mut report, self.busy)?;
        case.restart(&mut report)?;
        case.cut(&mut report, self.cut)?;
        report.judge();
        Ok(report)
    }
}
