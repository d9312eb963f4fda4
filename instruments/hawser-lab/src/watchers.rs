//! Clients that monitor a daemon, and their cost to transfers over its session.

mod case;
mod client;
mod options;
mod report;
mod stage;
mod table;

use std::path::Path;

use clap::ValueEnum;

use self::case::Case;
use self::options::Crowd;
use self::report::WatchersReport;
use self::stage::Stage;
use crate::experiment::{Findings, Head};
use crate::measure::Programs;
use crate::verdict::Verdict;

pub(crate) use client::{WatchArguments, watch};
pub(crate) use options::{Links, Options};

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
    let crowds = match &options.crowds[..] {
        [] => Crowd::value_variants(),
        asked => asked,
    };
    let (mut cases, mut failures) = (Vec::new(), Vec::new());
    for (direction, payload) in payloads {
        for crowd in crowds.iter().copied() {
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

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
