//! Small requests on one open connection, one after another, alone and beside a bulk transfer: the
//! time to an answer.

mod options;
mod phase;
mod report;
mod table;

use std::path::Path;

use self::phase::Subject;
use self::report::{Phase, RequestReport};
use crate::contender::Contender;
use crate::experiment::{Findings, Head, named};
use crate::measure::{Programs, quickest_link};
use crate::scenario::{Direction, Scenario};
use crate::statistics::Spread;

pub(crate) use options::Options;

/// Measures every contender without bulk and beside bulk either way, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<RequestReport> {
    let (better, base_rtt) = quickest_link(scenario);
    let mut phases = Vec::new();
    for contender in Contender::all(options.only_hawser, Contender::tcp) {
        for bulk in [None, Some(Direction::Put), Some(Direction::Get)] {
            let subject = Subject {
                scenario,
                options,
                programs,
                contender,
                bulk,
                better,
            };
            phases.push(measure(&subject, folder, base_rtt.as_secs_f64()));
        }
    }
    Ok(RequestReport {
        head: Head::new("request", &scenario.name),
        count: options.count,
        repeat: options.repeat,
        size: options.size,
        better_link: better + 1,
        base_rtt_seconds: base_rtt.as_secs_f64(),
        phases,
    })
}

impl Findings for RequestReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let of = |phase: &Phase| {
            let failures: Vec<_> = phase
                .runs
                .iter()
                .flat_map(|run| run.failure.clone())
                .collect();
            named(&phase.name(), &failures)
        };
        self.phases.iter().flat_map(of).collect()
    }
}

/// Goes through one phase as often as is asked.
fn measure(subject: &Subject<'_>, folder: &Path, base_rtt: f64) -> Phase {
    let bulk = subject.bulk.map_or("none", Direction::name);
    let runs: Vec<_> = (0..subject.options.repeat)
        .map(|number| {
            let contender = subject.contender;
            eprintln!("{contender}, bulk: {bulk}, run {}", number + 1);
            // What one run leaves in queues and buffers must not reach the next.
            let name = format!("{contender}-{bulk}-{}", number + 1).replace(' ', "-");
            subject.run(&folder.join(name), number)
        })
        .collect();
    let samples: Vec<_> = runs.iter().flat_map(|run| run.samples.clone()).collect();
    let rtt_seconds = Spread::of(&samples);
    Phase {
        by: subject.contender.to_string(),
        bulk: subject.bulk,
        rtt_seconds,
        p99_over_base_rtt: rtt_seconds
            .filter(|_| base_rtt > 0.0)
            .map(|spread| spread.p99 / base_rtt),
        runs,
    }
}
