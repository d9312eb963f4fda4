//! Failures and returns of a link: their effect on a transfer, and on an idle session.

mod case;
mod options;
mod report;
mod table;

use std::path::Path;
use std::time::Duration;

use hawser_monitor::report::Chart;

use self::case::Subject;
use self::options::{Load, Trouble};
use self::report::{Case, FailoverReport};
use crate::contender::{Contender, Equipment};
use crate::experiment::{Findings, Head, named};
use crate::measure::{Bench, Programs, Session};
use crate::scenario::Scenario;
use crate::timeline;
use crate::topology::Lab;
use crate::verdict::Verdict;

pub(crate) use options::Options;

/// Goes through all cases of a scenario, whose own events do not happen, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<FailoverReport> {
    anyhow::ensure!(scenario.links.len() > 1, "no link is left when one fails");
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let mut session = Session::start(&bench, programs, 1)?;
    let contenders = Contender::all(options.only_hawser, || Contender::mptcp(bench.lab()));
    let part = Duration::from_secs(options.part);
    let mut cases = Vec::new();
    for &trouble in all_when_empty(&options.trouble, &Trouble::ALL) {
        for &load in all_when_empty(&options.load, &Load::ALL) {
            for &contender in &contenders {
                let subject = Subject {
                    scenario,
                    part,
                    equipment: Equipment {
                        bench: &bench,
                        session: Some(&session),
                        link: 0,
                    },
                    contender,
                    trouble,
                    load,
                };
                cases.push(measure(&subject, options.repeat));
            }
            // What has been measured until then stays.
            let dead = session.check_alive().err().map(|error| error.to_string());
            let own = cases.iter_mut().rfind(|case| case.is_own());
            if let (Some(dead), Some(case)) = (dead, own) {
                case.failures.push(dead);
            }
        }
    }
    Ok(FailoverReport {
        head: Head::new("failover", &scenario.name),
        repeat: options.repeat,
        part_seconds: part.as_secs_f64(),
        verdicts: cases.iter().flat_map(Case::verdicts).collect(),
        cases,
    })
}

/// Measures one case; the links take turns in failing.
fn measure(subject: &Subject<'_>, repeat: u32) -> Case {
    let mut case = Case {
        trouble: subject.trouble,
        load: subject.load,
        by: subject.contender.to_string(),
        samples: Vec::new(),
        failures: Vec::new(),
    };
    for number in 0..repeat as usize {
        let link = number % subject.scenario.links.len();
        let name = case.name();
        match subject.run(link) {
            Ok(sample) => {
                let gap = sample.gap_seconds * 1e3;
                eprintln!("  {name} {}, link {}: {gap:.0} ms", case.by, sample.link);
                case.samples.push(sample);
            }
            Err(error) => {
                eprintln!("  {name} {}: FAILED: {error}", case.by);
                case.failures.push(error.to_string());
            }
        }
    }
    case
}

fn all_when_empty<'a, T>(given: &'a [T], all: &'a [T]) -> &'a [T] {
    if given.is_empty() { all } else { given }
}

impl Findings for FailoverReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    /// One for each trouble under load; of each contender the transfer with the median rate.
    fn charts(&self) -> Vec<Chart> {
        let alike = self.cases.chunk_by(|a, b| a.name() == b.name());
        let charts = alike.map(|cases| {
            let transfers = cases.iter().filter_map(|case| {
                let samples = case.samples.iter();
                let median = timeline::median(samples.filter_map(|it| it.outcome.as_ref()))?;
                Some((case.by.clone(), median.clone()))
            });
            let name = cases.first().map(Case::name).unwrap_or_default();
            timeline::chart(format!("{name}: rate over time"), transfers)
        });
        charts.filter(|chart| !chart.series.is_empty()).collect()
    }

    fn failures(&self) -> Vec<String> {
        let of = |case: &Case| named(&format!("{} {}", case.name(), case.by), &case.failures);
        self.cases.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
