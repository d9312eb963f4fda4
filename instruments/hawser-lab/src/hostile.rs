//! A peer that misbehaves by script, against the real program: the program's memory and
//! descriptors, and the service to an honest client.

mod report;

use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use hawser_hostile::HostileError;
use hawser_hostile::outcome::Outcome;
use hawser_hostile::script::Script;
use hawser_hostile::scripts;
use hawser_hostile::trial::{self, Conditions};
use hawser_types::ByteCount;
use parking_lot::Mutex;

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
    /// Scripts at once, each with a program of its own; with several, goodput says little
    #[arg(long, value_name = "N", default_value = "1")]
    jobs: NonZeroUsize,
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
            return Ok(scripts::all());
        }
        let named = |name: &String| {
            let known = || scripts::all().iter().map(|it| it.name).collect::<Vec<_>>();
            scripts::named(name).with_context(|| {
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
        let trials = Mutex::new(scripts.iter().enumerate());
        let report = Mutex::new(Report::new(self.memory, self.time()));
        let work = || {
            while let Some((number, script)) = next(&trials) {
                eprintln!("{} of {}: {}", number + 1, scripts.len(), script.name);
                let outcome = trial::run(script, &conditions);
                note(&mut report.lock(), script, outcome);
            }
        };
        thread::scope(|scope| {
            for _ in 0..self.jobs.get() {
                scope.spawn(work);
            }
        });
        let mut report = report.into_inner();
        report.judge();
        report
    }

    fn time(&self) -> Duration {
        let minutes = |minutes: u32| Duration::from_secs(60 * u64::from(minutes));
        self.minutes.map_or(BRIEFLY, minutes)
    }
}

fn next<'a, T>(trials: &Mutex<impl Iterator<Item = (usize, &'a T)>>) -> Option<(usize, &'a T)> {
    trials.lock().next()
}

/// Adds what a trial has shown, or why it could not be made.
fn note(report: &mut Report, script: &Script, outcome: Result<Outcome, HostileError>) {
    match outcome {
        Ok(outcome) => {
            let row = Row::new(outcome);
            eprintln!("  {}: {row}", script.name);
            report.add(row);
        }
        Err(error) => {
            eprintln!("  {} is not measured: {error}", script.name);
            report.fail(script.name, &error.to_string());
        }
    }
}

const BRIEFLY: Duration = Duration::from_secs(10);
/// Time for which the honest client is alone.
const BEFORE: Duration = Duration::from_secs(2);
