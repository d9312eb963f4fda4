//! Objects of a few sizes, each on a connection of its own: how long until the last byte of one, on
//! a warm session beside plain TCP on the best link?

mod best_link;
mod table;

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use hawser_types::ByteCount;
use serde::Serialize;

use crate::contender::{Contender, Equipment};
use crate::experiment::{Directions, Findings, Head};
use crate::measure::{Bench, Programs, Session, StepError, alike};
use crate::meter;
use crate::scenario::{Direction, Scenario};
use crate::statistics::Spread;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    // All directions and contenders together.
    /// Seconds for each size, as long as each kind has its least number by then
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=36_000))]
    seconds: u64,
    /// As many of each kind at least, if that takes no more than five times as long
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    least: u32,
    /// Which sizes
    #[arg(long, value_delimiter = ',', default_value = "20kB,100kB,1MB")]
    sizes: Vec<ByteCount>,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Directions,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ObjectsReport {
    #[serde(flatten)]
    head: Head,
    /// For each size.
    span_seconds: f64,
    verdicts: Vec<Verdict>,
    /// What went wrong beside single objects.
    failures: Vec<String>,
    groups: Vec<Group>,
}

/// All objects of one size in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Group {
    bytes: u64,
    direction: Direction,
    /// The link that is best for plain TCP, from 1.
    tcp_link: usize,
    rows: Vec<Row>,
}

/// Those that one contender took.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    by: String,
    /// From connecting to the last byte acknowledged by the receiving application.
    seconds: Option<Spread>,
    samples: Vec<f64>,
    failures: Vec<String>,
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
        bench: &bench,
        session: &session,
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
        .flat_map(|group| group.verdicts(scenario, options));
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

/// Where objects are fetched and put.
#[derive(Clone, Copy, Debug)]
struct Objects<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    /// Hawser, then plain TCP with each congestion control.
    contenders: &'a [Contender],
    bench: &'a Bench,
    session: &'a Session,
}

impl Objects<'_> {
    /// All objects of one size: directions and contenders take turns, so that what else the machine
    /// does falls on each of them.
    fn of_size(&self, size: ByteCount) -> Result<Vec<Group>, StepError> {
        let mut groups = Vec::new();
        for direction in self.options.direction.directions() {
            let link = self.best_link(direction, size)?;
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
        let result = self.transfer(contender, group.tcp_link - 1, group.direction, size);
        let row = &mut group.rows[index];
        match result {
            Ok(seconds) => row.samples.push(seconds),
            Err(error) => row.failures.push(error.to_string()),
        }
        // The last acknowledgements and ends of a connection are not in the next one's way.
        std::thread::sleep(PAUSE);
    }

    fn transfer(
        &self,
        contender: Contender,
        link: usize,
        direction: Direction,
        size: ByteCount,
    ) -> Result<f64, StepError> {
        let equipment = Equipment {
            bench: self.bench,
            session: Some(self.session),
            link,
        };
        let order = equipment.order(contender, direction, size);
        let client = self.bench.lab().client();
        let outcome = client.run(|| meter::transfer(&order, &AtomicU64::new(0)))?;
        match outcome.ok {
            true => Ok(outcome.seconds),
            false => Err(StepError::Corrupted),
        }
    }
}

impl Group {
    fn new(size: ByteCount, direction: Direction, link: usize, contenders: &[Contender]) -> Self {
        let row = |contender: &Contender| Row {
            by: contender.to_string(),
            seconds: None,
            samples: Vec::new(),
            failures: Vec::new(),
        };
        Self {
            bytes: size.as_u64(),
            direction,
            tcp_link: link + 1,
            rows: contenders.iter().map(row).collect(),
        }
    }

    fn name(&self) -> String {
        format!("{} {}", self.direction.name(), ByteCount::new(self.bytes))
    }

    /// Hawser beside the better of plain TCP's figures; as many as were asked for.
    fn verdicts(&self, scenario: &Scenario, options: &Options) -> Vec<Verdict> {
        let [hawser, tcp @ ..] = self.rows.as_slice() else {
            return Vec::new();
        };
        let asked = match alike(scenario, self.direction) {
            0 | 1 => Asked::AtMost(1.0),
            _ => Asked::Below(1.0),
        };
        let mut all = Vec::new();
        let figures: [Figure; 2] = [("median", |s| s.median), ("p99", |s| s.p99)];
        for (name, of) in figures {
            let own = hawser.seconds.as_ref().map(of);
            let plain = tcp.iter().filter_map(|row| row.seconds.as_ref().map(of));
            if let (Some(own), Some(plain)) = (own, plain.reduce(f64::min)) {
                let what = format!("{}: {name}, of tcp's", self.name());
                all.push(Verdict::new(what, own / plain, asked));
            }
        }
        let count = self.rows.iter().map(|row| row.samples.len()).min();
        let what = format!("{}: objects", self.name());
        let least = Asked::AtLeast(options.least.into());
        all.push(Verdict::new(what, count.unwrap_or(0) as f64, least));
        all
    }
}

/// A figure of a spread, and its name.
type Figure = (&'static str, fn(&Spread) -> f64);

impl Findings for ObjectsReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> usize {
        let rows = self.groups.iter().flat_map(|group| &group.rows);
        rows.map(|row| row.failures.len()).sum::<usize>() + self.failures.len()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const PAUSE: Duration = Duration::from_millis(20);
/// So many spans at most for the least number of objects.
const MOST: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::no_files;

    fn row(by: &str, samples: &[f64]) -> Row {
        Row {
            by: by.to_owned(),
            seconds: Spread::of(samples),
            samples: samples.to_vec(),
            failures: Vec::new(),
        }
    }

    fn judged(second: &str, hawser: f64) -> Vec<bool> {
        let link = |rate: &str| format!("[[link]]\nrate = \"{rate}\"\n");
        let links = [link("10Mbit/s"), link(second)].concat();
        let text = format!("payload = \"1MB\"\n{links}");
        let scenario = Scenario::parse("test", &text, &no_files).unwrap();
        let options = Options {
            seconds: 1,
            least: 2,
            sizes: Vec::new(),
            direction: Directions::Both,
        };
        let group = Group {
            rows: vec![
                row("hawser", &[hawser; 2]),
                row("tcp cubic", &[1.0, 2.0]),
                row("tcp bbr", &[1.5, 1.5]),
            ],
            ..Group::new(ByteCount::new(20_000), Direction::Put, 0, &[])
        };
        let all = group.verdicts(&scenario, &options);
        all.iter().map(|verdict| verdict.met).collect()
    }

    #[test]
    fn each_figure_is_set_against_the_better_of_its_kind() {
        // Median: cubic's 1.0; p99: bbr's 1.5.
        assert_eq!(judged("5Mbit/s", 1.0), [true, true, true]);
        assert_eq!(judged("5Mbit/s", 1.2), [false, true, true]);
        assert_eq!(judged("5Mbit/s", 1.6), [false, false, true]);
    }

    #[test]
    fn where_links_are_alike_less_is_asked_than_plain_tcp_takes() {
        assert_eq!(judged("10Mbit/s", 1.0), [false, true, true]);
        assert_eq!(judged("10Mbit/s", 0.9), [true, true, true]);
    }
}
