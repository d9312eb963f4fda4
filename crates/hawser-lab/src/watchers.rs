//! Who looks at a daemon, and what transfers over its session lose by that.

mod case;
mod client;
mod stage;
mod table;

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use self::case::Case;
use self::stage::Stage;
use crate::experiment::{Directions, Findings, Head};
use crate::measure::Programs;
use crate::scenario::Scenario;
use crate::verdict::Verdict;

pub(crate) use client::{WatchArguments, watch};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these who look
    #[arg(long, value_delimiter = ',', value_enum)]
    crowds: Vec<Crowd>,
    /// How many pairs of transfers, one with them and one without
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// About how long a transfer takes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=60))]
    seconds: u8,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Directions,
    /// Feeds that are asked for and not read
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    feeds: u16,
    /// Requests of each kind in a flood, a second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rate: u16,
}

/// Those who look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Crowd {
    /// Many who ask for a feed and never read it
    Stalled,
    /// One who reads all, and asks as the page does
    Page,
    /// Wrong tokens, names of other hosts and bodies of 10 MB
    Flood,
}

/// What transfers go over.
#[derive(Debug)]
pub(crate) enum Links {
    /// Those of a scenario.
    Of(Box<Scenario>),
    /// Virtual cables without limits.
    Unshaped,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct WatchersReport {
    #[serde(flatten)]
    head: Head,
    cases: Vec<Case>,
    /// Resident memory of the daemon in bytes: before anybody looked, and when all were gone.
    memory: [u64; 2],
    failures: Vec<String>,
    verdicts: Vec<Verdict>,
}

/// Measures every crowd in every direction with one daemon, with logs in `folder`.
pub(crate) fn run(
    links: &Links,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<WatchersReport> {
    let mut stage = Stage::start(links, options, programs, folder)?;
    let mut payloads = Vec::new();
    for direction in options.direction.directions() {
        payloads.push((direction, stage.warm_up(direction)?));
    }
    let before = stage.memory()?;
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for (direction, payload) in payloads {
        for crowd in chosen(&options.crowds) {
            let what = (direction, payload);
            cases.push(Case::measure(&mut stage, crowd, what, &mut failures));
        }
    }
    Ok(WatchersReport {
        head: Head::new("watchers", links.name()),
        memory: [before, stage.memory()?],
        verdicts: cases.iter().flat_map(Case::verdicts).collect(),
        cases,
        failures,
    })
}

impl Findings for WatchersReport {
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

impl Links {
    /// What reports call them.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Of(scenario) => &scenario.name,
            Self::Unshaped => "cables",
        }
    }
}

impl Crowd {
    /// As it is asked for on the command line.
    const fn name(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Page => "page",
            Self::Flood => "flood",
        }
    }
}

/// Those that were asked for, or all.
fn chosen(asked: &[Crowd]) -> Vec<Crowd> {
    match asked {
        [] => Crowd::value_variants().to_vec(),
        asked => asked.to_vec(),
    }
}
