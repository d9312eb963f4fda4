//! Objects of a few sizes, each on its own connection: time to the last byte of one, on a warm
//! session compared with plain TCP on the best link.

mod best_link;
mod report;
mod table;
mod transfers;

use std::path::Path;
use std::time::{Duration, Instant};

use hawser_types::ByteCount;

use self::report::{Group, ObjectsReport};
use self::transfers::Transfers;
use crate::contender::Contender;
use crate::experiment::{Directions, Findings, Head};
use crate::measure::{Bench, Programs, Session, StepError};
use crate::scenario::Scenario;
use crate::statistics::Spread;
use crate::topology::Lab;
use crate::verdict::Verdict;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    // All directions and contenders together.
    /// Seconds for each size, as long as each kind has its least number by then
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=36_000))]
    seconds: u64,
    /// Least number of each kind, if that takes no more than five times as long
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    least: u32,
    /// Sizes of the objects
    #[arg(long, value_delimiter = ',', default_value = "20kB,100kB,1MB")]
    sizes: Vec<ByteCount>,
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    direction: Directions,
}

/// Measures all sizes, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<ObjectsReport> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let mut session = Session::start(&bench, programs, 1)?;
    let objects = Objects {
        scenario,
        options,
        contenders: &Contender::all(false, Contender::tcp),
        transfers: Transfers {
            bench: &bench,
            session: &session,
        },
    };
    let mut groups = Vec::new();
    for &size in &options.sizes {
        groups.extend(objects.of_size(size)?);
    }
    let failures = [
        session.check_alive().err().map(StepError::from),
        bench.check_emulator().err(),
    ];
    let judged = groups
        .iter()
        .flat_map(|group| group.verdicts(scenario, options.least));
    Ok(ObjectsReport {
        head: Head::new("objects", &scenario.name),
        span_seconds: options.seconds as f64,
        verdicts: judged.collect(),
        failures: failures
            .iter()
            .flatten()
            .map(StepError::to_string)
            .collect(),
        groups,
    })
}

/// The lab in which objects are fetched and put.
#[derive(Clone, Copy, Debug)]
struct Objects<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    /// Hawser, then plain TCP with each congestion control.
    contenders: &'a [Contender],
    transfers: Transfers<'a>,
}

impl Objects<'_> {
    /// All objects of one size: directions and contenders take turns, so that what else the machine
    /// does falls on each of them.
    fn of_size(&self, size: ByteCount) -> Result<Vec<Group>, StepError> {
        let mut groups = Vec::new();
        for direction in self.options.direction.directions() {
            let link = best_link::find(&self.transfers, &self.scenario.links, direction, size)?;
            groups.push(Group::new(size, direction, link, self.contenders));
        }
        let start = Instant::now();
        let mut round = 0;
        while self.goes_on(start.elapsed(), &groups) {
            for group in &mut groups {
                let count = group.rows.len();
                for turn in 0..count {
                    self.one(group, (round + turn) % count);
                }
            }
            round += 1;
        }
        for row in groups.iter_mut().flat_map(|group| &mut group.rows) {
            row.seconds = Spread::of(&row.samples);
        }
        Ok(groups)
    }

    fn goes_on(&self, elapsed: Duration, groups: &[Group]) -> bool {
        let rows = groups.iter().flat_map(|group| &group.rows);
        let tried = rows.map(|row| row.samples.len() + row.failures.len()).min();
        let few = tried.is_some_and(|tried| tried < self.options.least as usize);
        let span = Duration::from_secs(self.options.seconds);
        elapsed < span || (few && elapsed < span * MOST)
    }

    fn one(&self, group: &mut Group, index: usize) {
        let contender = self.contenders[index];
        let size = ByteCount::new(group.bytes);
        let result = self
            .transfers
            .run(contender, group.tcp_link - 1, group.direction, size);
        let row = &mut group.rows[index];
        match result {
            Ok(seconds) => row.samples.push(seconds),
            Err(error) => row.failures.push(error.to_string()),
        }
        // The last acknowledgements and ends of a connection are not in the next one's way.
        std::thread::sleep(PAUSE);
    }
}

impl Findings for ObjectsReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let mut all = self.failures.clone();
        for group in &self.groups {
            for row in &group.rows {
                if let Some(first) = row.failures.first() {
                    let (name, count) = (group.name(), row.failures.len());
                    all.push(format!("{name} {}: {count}, first: {first}", row.by));
                }
            }
        }
        all
    }

    fn failure_count(&self) -> usize {
        let rows = self.groups.iter().flat_map(|group| &group.rows);
        rows.map(|row| row.failures.len()).sum::<usize>() + self.failures.len()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const PAUSE: Duration = Duration::from_millis(20);
/// Most spans for the least number of objects.
const MOST: u32 = 5;
