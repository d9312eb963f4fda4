//! A link that is lost while connections are open on it and new ones keep coming.

mod case;
mod hosts;
mod table;
mod visits;

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hawser_sched::connection::ConnectionPolicy;
use serde::Serialize;

use self::case::Case;
use crate::experiment::{Findings, Head};
use crate::measure::Programs;
use crate::scenario::{Action, Scenario};
use crate::verdict::Verdict;

pub(crate) use visits::{VisitArguments, visit};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// Only these ways
    #[arg(long, value_delimiter = ',', value_enum)]
    ways: Vec<EntryPoint>,
    /// Only these kinds of loss
    #[arg(long, value_delimiter = ',', value_enum)]
    cuts: Vec<Cut>,
    /// Connections that are open all the time
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=2000))]
    open: u32,
    /// New connections a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=500))]
    rate: u32,
    /// Seconds of new connections before the loss
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=60))]
    lead: u32,
    /// Seconds of new connections after it
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=60))]
    after: u32,
    /// Which link is lost; link 1 has the default route
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    link: u8,
    /// The policy that places connections
    #[arg(long, default_value_t = ConnectionPolicy::RoundRobin)]
    scheduler: ConnectionPolicy,
    /// How often
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// How connections come to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum EntryPoint {
    /// At the port of `hawser up`.
    Port,
    /// By the library that `hawser run` loads.
    Shim,
    /// By the program in the kernel.
    Kernel,
}

/// What becomes of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Cut {
    /// It loses its carrier.
    Carrier,
    /// It keeps its carrier, and carries nothing.
    Silent,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CutReport {
    #[serde(flatten)]
    head: Head,
    /// The link that is lost, from 1.
    link: u8,
    cases: Vec<Case>,
    failures: Vec<String>,
    verdicts: Vec<Verdict>,
}

/// Measures every way with every loss, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<CutReport> {
    let lost = usize::from(options.link) - 1;
    let count = scenario.links.len();
    anyhow::ensure!(
        count > 1 && lost < count,
        "--link {}: {} has {count} links, and one has to live on",
        options.link,
        scenario.name
    );
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for number in 1..=options.repeat {
        for way in chosen(&options.ways) {
            for cut in chosen(&options.cuts) {
                let name = format!("{}-{}-{number}", name(way), name(cut));
                let folder = folder.join(&name);
                std::fs::create_dir_all(&folder)?;
                match case::measure(scenario, options, programs, (way, cut), &folder) {
                    Ok(case) => {
                        eprintln!("  {name}: {}", case.line());
                        cases.push(case);
                    }
                    Err(error) => failures.push(format!("{name}: {error:#}")),
                }
            }
        }
    }
    Ok(CutReport {
        head: Head::new("cut", &scenario.name),
        link: options.link,
        verdicts: cases.iter().flat_map(Case::verdicts).collect(),
        cases,
        failures,
    })
}

impl Findings for CutReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> usize {
        self.failures.len()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

impl Cut {
    const fn action(self) -> Action {
        match self {
            Self::Carrier => Action::CarrierDown,
            Self::Silent => Action::BlackHole,
        }
    }
}

/// Those that were asked for, or all.
fn chosen<T: ValueEnum + Copy>(asked: &[T]) -> Vec<T> {
    match asked {
        [] => T::value_variants().to_vec(),
        asked => asked.to_vec(),
    }
}

/// As it is asked for on the command line.
fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}
