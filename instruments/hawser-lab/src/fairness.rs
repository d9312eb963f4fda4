//! Hawser beside one plain TCP on a link that both use: the share of each. (PAT-E4)

mod options;
mod report;
mod share;
mod table;

use std::path::Path;

use self::report::{FairnessReport, Row};
use self::share::Pair;
use crate::contender::Contender;
use crate::experiment::{Findings, Head, named};
use crate::measure::{Programs, available_controls};
use crate::scenario::Scenario;
use crate::verdict::Verdict;

pub(crate) use options::Options;

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
                rows.push(measure(&pair, folder));
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

/// Measures one pair as often as is asked.
fn measure(pair: &Pair<'_>, folder: &Path) -> Row {
    let mut row = Row {
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

impl Findings for FairnessReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let of = |row: &Row| named(&row.name(), &row.failures);
        self.rows.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
