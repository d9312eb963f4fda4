//! Links without limits: throughput and cost of associations, compared with usrsctp and QUIC
//! (quinn).

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;
use serde::Serialize;

use super::addresses;
use super::end::{End, Usrsctp, despite_crashes};
use super::stack::Stack;
use crate::experiment::{Common, Directions, Findings, Head, begin};
use crate::measure::StepError;
use crate::meter::AssociationOutcome;
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::text_table::aligned;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// Options of the measurement.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Bytes of each transfer
    #[arg(long, default_value = "1GB")]
    bytes: ByteCount,
    /// Bytes of one message, or of one write
    #[arg(
        long,
        default_value_t = 65_536,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    message: u32,
    /// Direction of the bytes
    #[arg(long, default_value = "put")]
    direction: Directions,
    /// Only these, as STACK-LINKS, such as "hawser-sealed-2,quinn-1"
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Repetitions of each transfer, in turns
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
}

/// A stack over so many links, in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    direction: Direction,
    stack: Stack,
    links: usize,
    gbps: Option<Spread>,
    /// Processor seconds per 10^9 bytes of payload, of sender and receiver together.
    cpu: Option<Spread>,
    samples: Vec<Sample>,
    failures: Vec<String>,
    /// How often usrsctp crashed; the transfer was made again.
    crashes: u32,
}

/// One transfer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Sample {
    /// Goodput in Gbit/s, from the first byte to the last at the receiver.
    gbps: f64,
    /// Processor seconds per 10^9 bytes of payload: sender, receiver.
    cpu_per_gigabyte: [f64; 2],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct SpeedReport {
    #[serde(flatten)]
    head: Head,
    bytes: u64,
    message: u32,
    repeat: u32,
    /// The machine's load averages over a minute, before and after.
    load: [f64; 2],
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
}

impl Arguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        begin()?;
        let place = self.common.place("association-speed")?;
        let report = run(&self.options, place.path())?;
        self.common.finish(&report)
    }
}

/// Measures every stack in turns, with logs in `folder`.
fn run(options: &Options, folder: &Path) -> anyhow::Result<SpeedReport> {
    let usrsctp = Usrsctp::build(folder)?;
    let load = load();
    let mut rows: Vec<Row> = Vec::new();
    for direction in options.direction.directions() {
        let wanted = |(stack, links): &(Stack, usize)| {
            let name = format!("{}-{links}", stack.name());
            options.only.is_empty() || options.only.contains(&name)
        };
        let kinds = KINDS.into_iter().filter(wanted);
        rows.extend(kinds.map(|(stack, links)| Row::new(direction, stack, links)));
    }
    anyhow::ensure!(!rows.is_empty(), "--only {:?}: no such row", options.only);
    for round in 1..=options.repeat {
        for row in &mut rows {
            row.measure(options, &usrsctp, folder, round);
        }
    }
    rows.iter_mut().for_each(Row::sum_up);
    Ok(SpeedReport {
        head: Head::new("association-speed", "cables"),
        bytes: options.bytes.as_u64(),
        message: options.message,
        repeat: options.repeat,
        load: [load, self::load()],
        verdicts: verdicts(&rows),
        rows,
    })
}

impl Row {
    fn new(direction: Direction, stack: Stack, links: usize) -> Self {
        Self {
            direction,
            stack,
            links,
            gbps: None,
            cpu: None,
            samples: Vec::new(),
            failures: Vec::new(),
            crashes: 0,
        }
    }

    fn measure(&mut self, options: &Options, usrsctp: &Usrsctp, folder: &Path, round: u32) {
        let log = folder.join(format!("{}-{}-{round}.log", self.stack.name(), self.links));
        let name = format!("{} {:<13}", self.direction.name(), self.stack.name());
        let transfer = || self.transfer(options, usrsctp, &log);
        let (outcome, crashes) = despite_crashes(&[self.stack], transfer);
        self.crashes += crashes;
        match outcome {
            Ok(sample) => {
                let [sender, receiver] = sample.cpu_per_gigabyte;
                let (links, gbps) = (self.links, sample.gbps);
                eprintln!("  {name} {links} {gbps:>6.2} Gbit/s {sender:>6.2} {receiver:>6.2} s/GB");
                self.samples.push(sample);
            }
            Err(error) => {
                eprintln!("  {name} {} failed: {error}", self.links);
                self.failures.push(error.to_string());
            }
        }
    }

    /// One transfer in a lab of its own.
    fn transfer(
        &self,
        options: &Options,
        usrsctp: &Usrsctp,
        log: &Path,
    ) -> Result<Sample, StepError> {
        let lab = Lab::unshaped(self.links)?;
        let (client, server) = addresses(&lab, self.links);
        let (from, to) = match self.direction {
            Direction::Put => ((lab.client(), client), (lab.server(), server)),
            Direction::Get => ((lab.server(), server), (lab.client(), client)),
        };
        let end = |host, locals| End {
            stack: self.stack,
            host,
            locals,
            bytes: options.bytes.as_u64(),
            message: options.message,
            usrsctp,
        };
        let remotes = to.1.clone();
        let mut receiving = end(to.0, to.1).listen(log)?;
        let sent = end(from.0, from.1).send(&remotes, LIMIT)?;
        let received = receiving.outcome(LIMIT)?;
        if received.bytes != sent.bytes || received.wrong != 0 || received.bytes == 0 {
            return Err(StepError::Corrupted);
        }
        let cost = |outcome: &AssociationOutcome| outcome.cpu * 1e9 / outcome.bytes as f64;
        Ok(Sample {
            gbps: received.bytes as f64 * 8e-9 / received.seconds,
            cpu_per_gigabyte: [cost(&sent), cost(&received)],
        })
    }

    fn sum_up(&mut self) {
        let speeds: Vec<f64> = self.samples.iter().map(|sample| sample.gbps).collect();
        let costs = self.samples.iter();
        let costs: Vec<f64> = costs
            .map(|sample| sample.cpu_per_gigabyte.iter().sum())
            .collect();
        (self.gbps, self.cpu) = (Spread::of(&speeds), Spread::of(&costs));
    }
}

/// Hawser's associations beside each of the others, by medians: usrsctp seals nothing, QUIC
/// everything.
fn verdicts(rows: &[Row]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for row in rows {
        let others: &[Stack] = match row.stack {
            Stack::Hawser => &[Stack::Usrsctp, Stack::UsrsctpCmt],
            Stack::HawserSealed => &[Stack::Quinn],
            _ => &[],
        };
        let is_other = |other: &&Row| {
            let alike = row.direction == other.direction && row.links == other.links;
            alike && others.contains(&other.stack)
        };
        for other in rows.iter().filter(is_other) {
            let (Some(gbps), Some(cpu)) = (ratio(row.gbps, other.gbps), ratio(row.cpu, other.cpu))
            else {
                continue;
            };
            let beside = format!(
                "{} {} over {} of {}",
                row.direction.name(),
                row.stack.name(),
                row.links,
                other.stack.name()
            );
            let speed = Verdict::new(format!("{beside}: goodput"), gbps, Asked::AtLeast(1.0));
            let cost = Verdict::new(format!("{beside}: processor"), cpu, Asked::AtMost(1.0));
            verdicts.extend([speed, cost]);
        }
    }
    verdicts
}

fn ratio(own: Option<Spread>, other: Option<Spread>) -> Option<f64> {
    Some(own?.median / other?.median)
}

fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next();
    first.and_then(|load| load.parse().ok()).unwrap_or_default()
}

impl Findings for SpeedReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = [
            "", "stack", "links", "Gbit/s", "from", "to", "CPU s/GB", "from", "to", "failed",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let mut line = vec![
                row.direction.name().to_owned(),
                row.stack.name().to_owned(),
                row.links.to_string(),
            ];
            for spread in [row.gbps, row.cpu] {
                let shown = spread.map(|it| [it.median, it.min, it.max]);
                let number = |value: f64| format!("{value:.2}");
                line.extend(shown.map_or(["-"; 3].map(str::to_owned), |it| it.map(number)));
            }
            line.push(row.failures.len().to_string());
            rows.push(line);
        }
        let mut text = self.head.title(&format!(
            "{} over virtual cables, offloads on, in messages of {} bytes, median and extremes of {}; processor \
             time of both ends; load {:.2} to {:.2}",
            ByteCount::new(self.bytes),
            self.message,
            self.repeat,
            self.load[0],
            self.load[1]
        ));
        text.push_str(&aligned(&rows));
        text
    }

    fn failures(&self) -> Vec<String> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.failures.clone()).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const KINDS: [(Stack, usize); 9] = [
    (Stack::Hawser, 2),
    (Stack::HawserSealed, 2),
    (Stack::Usrsctp, 2),
    (Stack::UsrsctpCmt, 2),
    (Stack::Quinn, 2),
    (Stack::Hawser, 1),
    (Stack::HawserSealed, 1),
    (Stack::Usrsctp, 1),
    (Stack::Quinn, 1),
];
const LIMIT: Duration = Duration::from_secs(300);
