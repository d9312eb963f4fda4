//! Hawser beside one plain TCP on a link that both use: who gets how much of it? (PAT-E4)

mod share;
mod table;

use std::path::Path;

use serde::Serialize;

use self::share::{Pair, Share};
use crate::contender::Contender;
use crate::experiment::{Directions, Findings, Head};
use crate::measure::{Programs, available_controls, median};
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};
use crate::verdict::{Asked, Verdict};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often each pair
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Directions,
    /// Seconds that plain TCP takes at half of the link's rate
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(4..=3600))]
    seconds: u64,
    /// The link that both use
    #[arg(long, default_value_t = 1)]
    link: usize,
    /// Leave pairs of plain TCP out
    #[arg(long)]
    only_hawser: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FairnessReport {
    #[serde(flatten)]
    head: Head,
    repeat: u32,
    span_seconds: f64,
    /// The link that both use, from 1.
    link: usize,
    verdicts: Vec<Verdict>,
    rows: Vec<Row>,
}

/// One contender beside plain TCP with one congestion control.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    by: String,
    beside: Congestion,
    direction: Direction,
    shares: Vec<Share>,
    failures: Vec<String>,
}

/// Measures Hawser, and plain TCP in its place, beside plain TCP; logs go to `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<FairnessReport> {
    let count = scenario.links.len();
    anyhow::ensure!(
        (1..=count).contains(&options.link),
        "there is no link {} of {count}",
        options.link
    );
    let contenders = Contender::all(options.only_hawser, Contender::tcp);
    let mut rows = Vec::new();
    for direction in options.direction.directions() {
        for beside in available_controls() {
            for &contender in &contenders {
                let pair = Pair {
                    scenario,
                    options,
                    programs,
                    contender,
                    beside,
                    direction,
                };
                rows.push(Row::of(&pair, folder));
            }
        }
    }
    Ok(FairnessReport {
        head: Head::new("fairness", &scenario.name),
        repeat: options.repeat,
        span_seconds: options.seconds as f64,
        link: options.link,
        verdicts: rows.iter().filter_map(Row::verdict).collect(),
        rows,
    })
}

impl Row {
    fn of(pair: &Pair<'_>, folder: &Path) -> Self {
        let mut row = Self {
            by: pair.contender.to_string(),
            beside: pair.beside,
            direction: pair.direction,
            shares: Vec::new(),
            failures: Vec::new(),
        };
        for number in 1..=pair.options.repeat {
            let name = row.name();
            let place = format!("{name}-{number}").replace(' ', "-");
            match pair.measure(&folder.join(place)) {
                Ok(share) => {
                    eprintln!("  {name}: Jain's index {:.3}", share.jain);
                    row.shares.push(share);
                }
                Err(error) => {
                    eprintln!("  {name}: FAILED: {error}");
                    row.failures.push(error.to_string());
                }
            }
        }
        row
    }

    fn name(&self) -> String {
        let (way, beside) = (self.direction.name(), self.beside.name());
        format!("{way} {} beside tcp {beside}", self.by)
    }

    fn median(&self, of: impl Fn(&Share) -> f64) -> Option<f64> {
        median(self.shares.iter().map(of))
    }

    fn verdict(&self) -> Option<Verdict> {
        if self.by != Contender::Hawser.to_string() {
            return None;
        }
        let jain = self.median(|share| share.jain)?;
        let what = format!("{}: Jain's index", self.name());
        Some(Verdict::new(what, jain, Asked::AtLeast(JAIN)))
    }
}

impl Findings for FairnessReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> usize {
        self.rows.iter().map(|row| row.failures.len()).sum()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const JAIN: f64 = 0.95;
