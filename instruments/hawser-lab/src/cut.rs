//! Loss of a link while connections are open on it and new ones keep opening.

mod case;
mod hosts;
mod options;
mod report;
mod table;
mod visits;

use std::path::Path;

use clap::ValueEnum;

use self::case::Case;
use self::options::name;
use self::report::CutReport;
use crate::experiment::{Findings, Head};
use crate::measure::Programs;
use crate::scenario::Scenario;
use crate::verdict::Verdict;

pub(crate) use options::Options;
pub(crate) use visits::{VisitArguments, visit};

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

/// Returns the values that were asked for, or all.
fn chosen<T: ValueEnum + Copy>(asked: &[T]) -> Vec<T> {
    match asked {
        [] => T::value_variants().to_vec(),
        asked => asked.to_vec(),
    }
}
