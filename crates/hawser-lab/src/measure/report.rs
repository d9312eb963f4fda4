//! What a run found, raw and summed up.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::overhead::{WireCost, of_tcp};
use super::run::measured_instead;
use super::verdict::{self, Verdict};
use super::{Kind, Options, Samples, Table, recovery};
use crate::emulator::Counters;
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};

/// One run of one scenario.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// Seconds since 1970.
    pub unix_time: u64,
    /// Where it ran.
    pub machine: Machine,
    /// How often each transfer was made.
    pub repeat: u32,
    /// Bytes of a transfer over all links.
    pub payload: u64,
    /// The figures of each direction.
    pub summaries: Vec<Summary>,
    /// What was left out, and why.
    pub notes: Vec<String>,
    /// What the emulator did.
    pub emulator: Counters,
    /// Every transfer.
    pub samples: Vec<Entry>,
}

/// All transfers of one kind in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Which way.
    pub direction: Direction,
    /// Who carried them.
    #[serde(flatten)]
    pub kind: Kind,
    /// The transfers.
    #[serde(flatten)]
    pub samples: Samples,
    /// For each transfer that went through a scenario's events: seconds from the end of the last
    /// trouble to full rate, nothing when it was not reached again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recovery: Vec<Option<f64>>,
}

/// The machine that measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Machine {
    /// Kernel release.
    pub kernel: String,
    /// Processor cores in use.
    pub cores: usize,
}

impl Machine {
    /// This machine.
    pub fn of_this() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            kernel: kernel.unwrap_or_default().trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The figures of one direction, medians in Mbit/s.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Which way.
    pub direction: Direction,
    /// Each link alone, with its better congestion control.
    pub singles: Vec<Option<f64>>,
    /// Their sum; nothing unless every link was measured.
    pub sum: Option<f64>,
    /// The best single link.
    pub best_single: Option<f64>,
    /// MPTCP with its better congestion control.
    pub mptcp: Option<f64>,
    /// The first transfer on a fresh Hawser session.
    pub hawser_first: Option<f64>,
    /// A later one.
    pub hawser_warm: Option<f64>,
    /// IP bytes for each byte of payload: plain TCP on single links.
    pub tcp_wire: Option<WireCost>,
    /// The same of a first transfer; its handshakes and joins are in it.
    pub hawser_first_wire: Option<WireCost>,
    /// The same of a later one.
    pub hawser_warm_wire: Option<WireCost>,
    /// How much a later Hawser transfer costs beyond plain TCP; 0.01 is one part in a hundred.
    pub overhead: Option<WireCost>,
    /// The ratios that are asked for, and whether they are reached.
    pub verdicts: Vec<Verdict>,
}

impl Summary {
    fn of(scenario: &Scenario, table: &Table, direction: Direction) -> Self {
        let links = scenario.links.len();
        let figure = |kind: Kind| table.get(&(direction, kind)).and_then(Samples::median);
        let better = |kind: &dyn Fn(Congestion) -> Kind| {
            let figures = Congestion::ALL.into_iter().filter_map(|c| figure(kind(c)));
            figures.reduce(f64::max)
        };
        let singles: Vec<_> = (1..=links)
            .map(|link| {
                let link = measured_instead(scenario, link - 1, direction) + 1;
                better(&|congestion| Kind::Tcp { link, congestion })
            })
            .collect();
        let wire = |kind| WireCost::of(table.get(&(direction, kind)).into_iter(), direction);
        let (tcp_wire, hawser_warm_wire) = (of_tcp(table, direction), wire(Kind::HawserWarm));
        let mut summary = Self {
            direction,
            sum: singles.iter().copied().sum(),
            best_single: singles.iter().copied().flatten().reduce(f64::max),
            singles,
            mptcp: better(&|congestion| Kind::Mptcp { congestion }),
            hawser_first: figure(Kind::HawserFirst),
            hawser_warm: figure(Kind::HawserWarm),
            tcp_wire,
            hawser_first_wire: wire(Kind::HawserFirst),
            hawser_warm_wire,
            overhead: hawser_warm_wire
                .zip(tcp_wire)
                .map(|(own, plain)| own.above(plain)),
            verdicts: Vec::new(),
        };
        summary.verdicts = verdict::of(scenario, &summary);
        summary
    }
}

impl Report {
    pub(super) fn new(
        scenario: &Scenario,
        options: &Options,
        machine: Machine,
        table: Table,
        notes: Vec<String>,
        emulator: Counters,
    ) -> Self {
        let mut directions: Vec<_> = table.keys().map(|(direction, _)| *direction).collect();
        directions.dedup();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self {
            scenario: scenario.name.clone(),
            unix_time: now.map_or(0, |since| since.as_secs()),
            machine,
            repeat: options.repeat,
            payload: scenario.payload.as_u64(),
            summaries: directions
                .into_iter()
                .map(|direction| Summary::of(scenario, &table, direction))
                .collect(),
            notes,
            emulator,
            samples: table
                .into_iter()
                .map(|((direction, kind), samples)| Entry {
                    recovery: recoveries(scenario, direction, &kind, &samples),
                    direction,
                    kind,
                    samples,
                })
                .collect(),
        }
    }

    /// How many transfers failed.
    pub fn failures(&self) -> usize {
        self.samples
            .iter()
            .map(|entry| entry.samples.failures.len())
            .sum()
    }

    /// Writes the report as `FOLDER/NAME.json`, whole or not at all.
    pub fn write(&self, folder: &Path) -> io::Result<PathBuf> {
        write_json(self, folder, &format!("{}.json", self.scenario))
    }
}

/// Writes a report as `FOLDER/NAME`, whole or not at all.
pub(crate) fn write_json(
    report: &impl Serialize,
    folder: &Path,
    name: &str,
) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, report)?;
    let path = folder.join(name);
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

fn recoveries(
    scenario: &Scenario,
    direction: Direction,
    kind: &Kind,
    samples: &Samples,
) -> Vec<Option<f64>> {
    if scenario.events.is_empty() || matches!(kind, Kind::Tcp { .. }) {
        return Vec::new();
    }
    let rate = scenario.total_rate(direction);
    let outcomes = samples.outcomes.iter();
    outcomes
        .map(|outcome| recovery::seconds(outcome, &scenario.events, rate))
        .collect()
}
