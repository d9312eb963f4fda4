//! A peer that misbehaves by script, against the real program: what it makes the program hold, and
//! what an honest client beside it still gets.

mod report;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use hawser_hostile::script::{self, Script};
use hawser_hostile::trial::{self, Conditions};
use hawser_types::ByteCount;

use self::report::{Report, Row};
use crate::experiment::Common;
use crate::interrupt;

/// Options of the measurement.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HostileOptions {
    #[command(flatten)]
    common: Common,
    /// Perform only this script; may be given several times
    #[arg(long, value_name = "NAME")]
    script: Vec<String>,
    /// Minutes for which each script is performed again and again [default: 10 seconds]
    #[arg(long, value_name = "N")]
    minutes: Option<u32>,
    /// Memory limit of the program
    #[arg(long, default_value = "64MiB")]
    memory: ByteCount,
    /// Bytes a second that the honest client wants
    #[arg(long, default_value = "4MB")]
    pace: ByteCount,
}

impl HostileOptions {
    pub(crate) fn execute(self) -> anyhow::Result<std::process::ExitCode> {
        let scripts = self.scripts()?;
        let programs = self.common.programs()?;
        interrupt::watch()?;
        let place = self.common.place("hostile")?;
        let report = self.measure(&scripts, programs.hawser(), place.path());
        self.common.finish(&report)
    }

    fn scripts(&self) -> anyhow::Result<Vec<Script>> {
        if self.script.is_empty() {
            return Ok(script::all());
        }
        let named = |name: &String| {
            let known = || script::all().iter().map(|it| it.name).collect::<Vec<_>>();
            script::named(name).with_context(|| {
                format!(
                    "no script is called {name}: there is {}",
                    known().join(", ")
                )
            })
        };
        self.script.iter().map(named).collect()
    }

    fn measure(&self, scripts: &[Script], hawser: &Path, folder: &Path) -> Report {
        let conditions = Conditions {
            memory: self.memory,
            time: Some(self.time()),
            before: BEFORE,
            pace: self.pace.as_u64(),
            folder: Some(folder.to_owned()),
            ..Conditions::brief(hawser.to_owned())
        };
        let mut report = Report::new(self.memory, self.time());
        for (number, script) in scripts.iter().enumerate() {
            eprintln!("{} of {}: {}", number + 1, scripts.len(), script.name);
            match trial::run(script, &conditions) {
                Ok(outcome) => {
                    let row = Row::new(outcome);
                    eprintln!("  {row}");
                    report.add(row);
                }
                Err(error) => {
                    eprintln!("  not measured: {error}");
                    report.fail(script.name, &error.to_string());
                }
            }
        }
        report.judge();
        report
    }

    fn time(&self) -> Duration {
        let minutes = |minutes: u32| Duration::from_secs(60 * u64::from(minutes));
        self.minutes.map_or(BRIEFLY, minutes)
    }
}

const BRIEFLY: Duration = Duration::from_secs(10);
/// Time for which the honest client is alone.
const BEFORE: Duration = Duration::from_secs(2);
