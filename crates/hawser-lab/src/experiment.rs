//! What all experiments have in common: their options, where logs go, how reports are headed, kept,
//! shown and summed up.

mod arguments;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hawser_monitor::report::{Chart, Page};
use hawser_session::TransportChoice;
use hawser_types::Rate;
use serde::Serialize;

use crate::commands::print;
use crate::interrupt::{self, TemporaryFolder};
use crate::measure::{Programs, ProgramsError};
use crate::privilege;
use crate::scenario::Scenario;
use crate::turns::in_turns;
use crate::verdict::{self, Verdict};

pub(crate) use arguments::{Arguments, Directions, Several, Single};

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
    /// Let data of Hawser's sessions travel over this: tcp, sctp or auto [default: tcp]
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
        Ok(match self.no_bbr {
            true => programs.without_bbr()?,
            false => programs,
        })
    }

    /// What data of sessions is to travel over, also where programs embed the library.
    pub(crate) fn transport(&self) -> TransportChoice {
        self.tested.transport.unwrap_or_default()
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
        Ok(exit_code(report.failures() == 0))
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
                whole &= report.failures() == 0;
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
        if scenarios.len() > 1 && !self.json {
            print(&F::summary(&reports))?;
        }
        Ok(exit_code(whole))
    }

    /// Writes the summary of all reports there are so far.
    fn sum_up<F: Findings>(&self, reports: &[F]) -> anyhow::Result<()> {
        if let (Some(folder), [first, _, ..]) = (&self.out, reports) {
            let name = format!("{}-summary.txt", first.head().experiment);
            std::fs::write(folder.join(name), F::summary(reports))?;
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

/// A report of an experiment.
pub(crate) trait Findings: Serialize {
    /// What every report begins with.
    fn head(&self) -> &Head;

    /// The report as text.
    fn render(&self) -> String;

    /// What of it is shown as charts.
    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    /// How many measurements failed.
    fn failures(&self) -> usize;

    /// What was asked, and whether it is reached.
    fn verdicts(&self) -> &[Verdict] {
        &[]
    }

    /// The verdicts as text.
    fn judgement(&self) -> String {
        let name = self.head().scenario.as_str();
        verdict::lines(self.verdicts().iter().map(|verdict| (name, verdict)))
    }

    /// All reports as one text.
    fn summary(all: &[Self]) -> String
    where
        Self: Sized,
    {
        let mut text: String = all.iter().map(Self::judgement).collect();
        for report in all.iter().filter(|report| report.failures() > 0) {
            let (name, count) = (&report.head().scenario, report.failures());
            text.push_str(&format!("{name}: {count} measurements failed\n"));
        }
        text
    }
}

/// What every report begins with.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Head {
    /// The command that made it.
    pub experiment: &'static str,
    /// The scenario's name.
    pub scenario: String,
    /// That command with the arguments that say what was measured.
    pub command: String,
    /// Seconds since 1970.
    pub unix_time: u64,
    /// Kernel release of the machine that measured.
    pub kernel: String,
    /// Its processor cores in use.
    pub cores: usize,
}

impl Head {
    /// The head of a report that is made now.
    pub(crate) fn new(experiment: &'static str, scenario: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            experiment,
            scenario: scenario.to_owned(),
            command: command(std::env::args().skip(1)),
            unix_time: now.map_or(0, |since| since.as_secs()),
            kernel: kernel.unwrap_or_default().trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The first lines of a report as text.
    pub(crate) fn title(&self, what: &str) -> String {
        format!(
            "{} {}: {what} (kernel {}, {} cores)\n\n",
            self.experiment, self.scenario, self.kernel, self.cores
        )
    }
}

/// Where one experiment's logs and state are.
#[derive(Debug)]
pub(crate) enum RunFolder {
    Kept(PathBuf),
    Temporary(TemporaryFolder),
}

impl RunFolder {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Kept(folder) => folder,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// The arguments without those that name places of this machine.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["hawser-lab".to_owned()];
    let mut is_place = false;
    for word in arguments {
        let names_one = PLACES.contains(&word.as_str());
        let holds_one = PLACES
            .iter()
            .any(|place| word.starts_with(&format!("{place}=")));
        if !(names_one || holds_one || is_place) {
            let file = Some(Path::new(&word)).filter(|file| file.is_absolute());
            let file = file.and_then(Path::file_name);
            let file = file.map(|name| name.to_string_lossy());
            words.push(file.map_or(word.clone(), |name| format!("scenarios/{name}")));
        }
        is_place = names_one;
    }
    words.join(" ")
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
    match whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

const PLACES: [&str; 4] = ["--out", "--html", "--logs", "--hawser"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_in_a_report_names_no_place_of_this_machine() {
        let words = "run hunt/long-fat.toml /home/x/eq-50.toml --out /tmp/y --repeat 3 --logs=/tmp/z --hawser h";
        let kept = command(words.split(' ').map(str::to_owned));
        assert_eq!(
            kept,
            "hawser-lab run hunt/long-fat.toml scenarios/eq-50.toml --repeat 3"
        );
    }
}
