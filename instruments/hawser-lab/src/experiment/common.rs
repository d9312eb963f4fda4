//! Options of every experiment: location of logs, storage and display of reports.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hawser_monitor::report::Page;
use hawser_session::TransportChoice;
use hawser_types::Rate;

use super::findings::Findings;
use super::run_folder::RunFolder;
use super::scenarios::Several;
use crate::interrupt::{self, TemporaryFolder};
use crate::measure::{Programs, ProgramsError};
use crate::output::print;
use crate::privilege;
use crate::scenario::Scenario;
use crate::turns::in_turns;

/// Options of every experiment.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Print JSON rather than tables
    #[arg(long)]
    json: bool,
    /// Write raw reports into DIR as EXPERIMENT-SCENARIO.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write reports as pages with charts into DIR as EXPERIMENT-SCENARIO.html
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    #[command(flatten)]
    tested: Tested,
    /// Keep the programs' logs in DIR/SCENARIO
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
    /// Take the right to choose bbr from Hawser
    #[arg(long)]
    no_bbr: bool,
}

/// Hawser, as it is looked at.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Tested {
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// Let data of Hawser's sessions travel over this: tcp, sctp or auto [default: auto]
    #[arg(long, value_name = "NAME")]
    transport: Option<TransportChoice>,
}

impl Tested {
    /// Finds the program.
    pub(crate) fn programs(&self) -> Result<Programs, ProgramsError> {
        let programs = Programs::find(self.hawser.as_deref())?;
        Ok(programs.with_transport(self.transport))
    }
}

impl Common {
    /// Finds the program under test.
    pub(crate) fn programs(&self) -> anyhow::Result<Programs> {
        let programs = self.tested.programs()?;
        Ok(if self.no_bbr {
            programs.without_bbr()?
        } else {
            programs
        })
    }

    /// Returns the transport of sessions, also for programs that embed the library.
    pub(crate) fn transport(&self) -> TransportChoice {
        self.asked_transport().unwrap_or_default()
    }

    /// Returns the transport of sessions that was asked for, if any.
    pub(crate) fn asked_transport(&self) -> Option<TransportChoice> {
        self.tested.transport
    }

    /// A folder for logs and state: one below the folder that is kept, or one that goes.
    pub(crate) fn place(&self, name: &str) -> io::Result<RunFolder> {
        match &self.logs {
            None => TemporaryFolder::create().map(RunFolder::Temporary),
            Some(logs) => {
                let folder = logs.join(name);
                std::fs::create_dir_all(&folder)?;
                Ok(RunFolder::Kept(folder))
            }
        }
    }

    /// Keeps and shows one report; the exit code says whether all of it could be measured.
    pub(crate) fn finish(&self, report: &impl Findings) -> anyhow::Result<ExitCode> {
        if let Some(folder) = &self.out {
            let head = report.head();
            let name = format!("{}-{}.json", head.experiment, head.scenario);
            let json = serde_json::to_vec(report)?;
            eprintln!("written: {}", write(&json, folder, &name)?.display());
        }
        if let Some(folder) = &self.html {
            let head = report.head();
            let name = format!("{}-{}.html", head.experiment, head.scenario);
            let page = page(report).render();
            eprintln!(
                "written: {}",
                write(page.as_bytes(), folder, &name)?.display()
            );
        }
        if self.json {
            print(&serde_json::to_string(report)?)?;
        } else {
            print(&report.render())?;
            print(&report.judgement())?;
        }
        Ok(exit_code(report.failure_count() == 0))
    }

    /// Reads all scenarios, gets ready for labs and measures each.
    pub(crate) fn measure_all<F: Findings + Send>(
        &self,
        several: &Several,
        measure: impl Fn(&Scenario, &Path) -> anyhow::Result<F> + Sync,
    ) -> anyhow::Result<ExitCode> {
        let scenarios = several.load()?;
        begin()?;
        self.measure_each(&scenarios, several.together, measure)
    }

    /// Measures every scenario, several at once as long as their links carry no more than
    /// `together` in all, and finishes each report when it is there. One that cannot be measured is
    /// no loss to the others.
    pub(crate) fn measure_each<F: Findings + Send>(
        &self,
        scenarios: &[Scenario],
        together: Option<Rate>,
        measure: impl Fn(&Scenario, &Path) -> anyhow::Result<F> + Sync,
    ) -> anyhow::Result<ExitCode> {
        let (mut reports, mut whole) = (Vec::new(), true);
        let mut trouble = None;
        let measure = |scenario: &Scenario| {
            let place = self.place(&scenario.name)?;
            measure(scenario, place.path())
        };
        let done = |scenario: &Scenario, result: anyhow::Result<F>| match result {
            Ok(report) => {
                whole &= report.failure_count() == 0;
                let finished = self.finish(&report).map(drop);
                reports.push(report);
                let kept = finished.and_then(|()| self.sum_up(&reports));
                trouble = trouble.take().or(kept.err());
            }
            Err(error) => {
                whole = false;
                eprintln!("{} was not measured: {error:#}", scenario.name);
            }
        };
        in_turns(scenarios, together.unwrap_or(Rate::ZERO), measure, done);
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        let summary = F::summary(&reports);
        if scenarios.len() > 1 && !self.json && !summary.is_empty() {
            print(&summary)?;
        }
        Ok(exit_code(whole))
    }

    /// Writes the summary of all reports there are so far.
    fn sum_up<F: Findings>(&self, reports: &[F]) -> anyhow::Result<()> {
        if let (Some(folder), [first, _, ..]) = (&self.out, reports) {
            let (name, text) = (&first.head().experiment, F::summary(reports));
            if !text.is_empty() {
                std::fs::write(folder.join(format!("{name}-summary.txt")), text)?;
            }
        }
        Ok(())
    }
}

/// Gets ready to build labs: must come before the first thread.
pub(crate) fn begin() -> anyhow::Result<()> {
    privilege::acquire()?;
    interrupt::watch()?;
    Ok(())
}

/// The report with its charts.
fn page(report: &impl Findings) -> Page {
    let head = report.head();
    Page {
        title: format!("{} {}", head.experiment, head.scenario),
        text: format!(
            "{}{}\n{}\n",
            report.render(),
            report.judgement(),
            head.command
        ),
        charts: report.charts(),
    }
}

/// Writes a report as `FOLDER/NAME`, whole or not at all.
fn write(report: &[u8], folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(report)?;
    let path = folder.join(name);
    file.persist(&path)?;
    Ok(path)
}

fn exit_code(whole: bool) -> ExitCode {
    if whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
