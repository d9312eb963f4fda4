//! Gain for a user with two links and no server of their own: files, packages and a page, loaded
//! from an ordinary web server over each link alone, over links in turns, and by `hawser run`.

mod apt;
mod downloads;
mod figures;
mod files;
mod judge;
mod page;
mod report;
mod site;
mod table;
mod task;
mod variant;

use std::path::Path;

use self::figures::Figures;
use self::files::Percent;
use self::judge::{judge, verdicts};
use self::report::{Done, GainReport, Row};
use self::site::{Load, Site};
use self::task::Task;
use self::variant::{Kind, Runner, Variant};
use crate::experiment::{Findings, Head};
use crate::measure::Programs;
use crate::scenario::Scenario;
use crate::topology::Lab;
use crate::verdict::Verdict;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Repetitions of each task each way; the first time nothing is known of the links
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    rounds: u8,
    /// Only these tasks
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<Task>,
    /// Only these ways
    #[arg(long, value_delimiter = ',')]
    only: Vec<Kind>,
    /// Files of so many hundredths of their sizes, for a look
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
    percent: u8,
}

/// Does all tasks in one lab, with logs and what is loaded in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<GainReport> {
    let tasks = match &options.tasks[..] {
        [] => &Task::ALL[..],
        some => some,
    };
    task::check_programs(tasks)?;
    let no_kernel = variant::try_kernel().err().map(|error| error.to_string());
    let by_kernel = no_kernel.is_none();
    if let Some(why) = &no_kernel {
        eprintln!("  nothing is placed in the kernel here: {why}");
    }
    let ways = Variant::all(&options.only, scenario.links.len(), by_kernel);
    let lab = Lab::shaped(scenario)?;
    let site = Site::start(&lab, folder, Percent(options.percent))?;
    let loads = tasks.iter().map(|task| task.publish(&site));
    let loads = loads.collect::<anyhow::Result<Vec<_>>>()?;
    let mut runner = Runner {
        scenario,
        site,
        programs,
        by_kernel,
    };
    let mut failures = Vec::new();
    let mut done = Vec::new();
    for (task, load) in tasks.iter().zip(&loads) {
        let rows = repeat(&mut runner, (*task, &**load), &ways, options, &mut failures);
        done.push(Done {
            task: *task,
            bytes: load.bytes(),
            ways: rows,
        });
    }
    done.iter_mut().for_each(judge);
    Ok(GainReport {
        head: Head::new("gain", &scenario.name),
        round_robin_via: if by_kernel { "kernel" } else { "shim" },
        no_kernel,
        verdicts: done.iter().flat_map(verdicts).collect(),
        tasks: done,
        failures,
    })
}

/// Does a task by all ways in turns; another one is first in each round.
fn repeat(
    runner: &mut Runner<'_>,
    (task, load): (Task, &dyn Load),
    ways: &[Variant],
    options: &Options,
    failures: &mut Vec<String>,
) -> Vec<Row> {
    let row = |way: &Variant| Row {
        way: *way,
        samples: Vec::new(),
        figures: Figures::default(),
    };
    let mut rows: Vec<_> = ways.iter().map(row).collect();
    for round in 1..=options.rounds {
        let count = rows.len().max(1);
        for turn in 0..rows.len() {
            let row = &mut rows[(turn + usize::from(round) - 1) % count];
            let name = format!("{} by {}, round {round}", task.name(), row.way);
            match runner.run((task, load), row.way, round) {
                Ok(sample) => {
                    eprintln!("  {name}: {:.2} s", sample.seconds);
                    row.samples.push(sample);
                }
                Err(error) => failures.push(format!("{name}: {error:#}")),
            }
        }
    }
    rows
}

impl Findings for GainReport {
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
