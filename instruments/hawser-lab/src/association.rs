//! Associations between Hawser's stack and usrsctp, each as sender and as receiver, over all links.

mod end;
pub(crate) mod speed;
mod stack;

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;
use serde::Serialize;

use self::end::{End, Listening, Usrsctp, despite_crashes};
use self::stack::Stack;
use crate::experiment::{Common, Directions, Findings, Head, Several};
use crate::measure::StepError;
use crate::meter::AssociationOutcome;
use crate::scenario::{Action, Direction, Scenario};
use crate::statistics::median;
use crate::text_table::aligned;
use crate::topology::Lab;

/// Scenarios and options.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    several: Several,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
struct Options {
    /// Bytes of each transfer
    #[arg(long, default_value = "20MB")]
    bytes: ByteCount,
    /// Bytes of one message
    #[arg(
        long,
        default_value_t = MESSAGE,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000)
    )]
    message: u32,
    /// Direction of the bytes
    #[arg(long, default_value = "put")]
    direction: Directions,
    /// Only these pairs, as SENDER-RECEIVER
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Give each end one address instead of one on each link
    #[arg(long)]
    single: bool,
    /// Drop everything on link 1 from a fifth of a second after the first byte on
    #[arg(long)]
    cut: bool,
    /// Repetitions
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

/// One pair of stacks in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    direction: Direction,
    sender: Stack,
    receiver: Stack,
    /// Median goodput, Mbit/s.
    mbps: Option<f64>,
    /// Median processor seconds per 10^9 bytes: sender, receiver.
    cpu_per_gigabyte: [Option<f64>; 2],
    /// Goodput of each transfer.
    samples: Vec<f64>,
    failures: Vec<String>,
    /// How often usrsctp crashed; the transfer was made again.
    crashes: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct AssociationReport {
    #[serde(flatten)]
    head: Head,
    bytes: u64,
    message: u32,
    single: bool,
    cut: bool,
    /// The sum of the links' rates, Mbit/s.
    sum: f64,
    rows: Vec<Row>,
}

impl Arguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let measure = |scenario: &Scenario, folder: &Path| run(scenario, &self.options, folder);
        self.common.measure_all(&self.several, measure)
    }
}

/// Measures every pair, with logs in `folder`.
fn run(scenario: &Scenario, options: &Options, folder: &Path) -> anyhow::Result<AssociationReport> {
    let usrsctp = Usrsctp::build(folder)?;
    let mut rows = Vec::new();
    for direction in options.direction.directions() {
        for (sender, receiver) in PAIRS {
            let name = format!("{}-{}", sender.name(), receiver.name());
            if options.only.is_empty() || options.only.contains(&name) {
                let case = Case {
                    scenario,
                    options,
                    usrsctp: &usrsctp,
                    folder,
                    direction,
                };
                rows.push(case.measure(sender, receiver));
            }
        }
    }
    anyhow::ensure!(!rows.is_empty(), "--only {:?}: no such pair", options.only);
    let rates = scenario
        .links
        .iter()
        .map(|link| link.up.rate.bits_per_second());
    Ok(AssociationReport {
        head: Head::new("association", &scenario.name),
        bytes: options.bytes.as_u64(),
        message: options.message,
        single: options.single,
        cut: options.cut,
        sum: rates.sum::<u64>() as f64 / 1e6,
        rows,
    })
}

struct Case<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    usrsctp: &'a Usrsctp,
    folder: &'a Path,
    direction: Direction,
}

impl Case<'_> {
    fn measure(&self, sender: Stack, receiver: Stack) -> Row {
        let mut row = Row {
            direction: self.direction,
            sender,
            receiver,
            mbps: None,
            cpu_per_gigabyte: [None; 2],
            samples: Vec::new(),
            failures: Vec::new(),
            crashes: 0,
        };
        let mut cpu = [Vec::new(), Vec::new()];
        for number in 1..=self.options.repeat {
            let transfer = || self.transfer(sender, receiver, number);
            let (outcome, crashes) = despite_crashes(&[sender, receiver], transfer);
            row.crashes += crashes;
            match outcome {
                Ok([sent, received]) => {
                    row.samples.push(received.mbps());
                    for (cpu, outcome) in cpu.iter_mut().zip([sent, received]) {
                        cpu.push(outcome.cpu * 1e9 / outcome.bytes as f64);
                    }
                }
                Err(error) => row.failures.push(error.to_string()),
            }
            eprintln!("  {}", row.line());
        }
        row.mbps = median(row.samples.iter().copied());
        row.cpu_per_gigabyte = cpu.map(|samples| median(samples.into_iter()));
        row
    }

    /// One transfer in a lab of its own: sender's and receiver's outcome.
    fn transfer(
        &self,
        sender: Stack,
        receiver: Stack,
        number: u32,
    ) -> Result<[AssociationOutcome; 2], StepError> {
        let lab = Lab::shaped(self.scenario)?;
        let exchange = Exchange {
            usrsctp: self.usrsctp,
            direction: self.direction,
            sender,
            receiver,
            bytes: self.options.bytes.as_u64(),
            message: self.options.message,
            links: if self.options.single { 1 } else { usize::MAX },
        };
        let log = format!("{}-{}-{number}.log", sender.name(), receiver.name());
        exchange.make(&lab, &self.folder.join(log), |receiving| {
            if self.options.cut {
                receiving.begun(LIMIT)?;
                std::thread::sleep(CUT_AFTER);
                lab.apply(0, Action::BlackHole)?;
            }
            Ok(())
        })
    }
}

/// One transfer between two stacks.
struct Exchange<'a> {
    usrsctp: &'a Usrsctp,
    direction: Direction,
    sender: Stack,
    receiver: Stack,
    bytes: u64,
    message: u32,
    /// On how many links the ends have addresses.
    links: usize,
}

impl Exchange<'_> {
    /// Makes it, with something else to do meanwhile: sender's and receiver's outcome. What the
    /// receiver says goes to `log`.
    fn make(
        &self,
        lab: &Lab,
        log: &Path,
        meanwhile: impl FnOnce(&mut Listening) -> Result<(), StepError>,
    ) -> Result<[AssociationOutcome; 2], StepError> {
        let (client, server) = addresses(lab, self.links);
        let (from, to) = match self.direction {
            Direction::Put => ((lab.client(), client), (lab.server(), server)),
            Direction::Get => ((lab.server(), server), (lab.client(), client)),
        };
        let end = |stack, host, locals| End {
            stack,
            host,
            locals,
            bytes: self.bytes,
            message: self.message,
            usrsctp: self.usrsctp,
        };
        let remotes = to.1.clone();
        let mut receiving = end(self.receiver, to.0, to.1).listen(log)?;
        let sending = end(self.sender, from.0, from.1);
        let sent = std::thread::scope(|scope| {
            let sent = scope.spawn(|| sending.send(&remotes, LIMIT));
            meanwhile(&mut receiving)?;
            sent.join().expect("a sender does not panic")
        })?;
        let received = receiving.outcome(LIMIT)?;
        if received.bytes == self.bytes && received.wrong == 0 {
            Ok([sent, received])
        } else {
            Err(StepError::Corrupted)
        }
    }
}

/// usrsctp with its concurrent multipath transfer, as a peer of other experiments.
pub(crate) struct ConcurrentMultipath(Usrsctp);

impl ConcurrentMultipath {
    /// Compiles its end into `folder`.
    pub(crate) fn build(folder: &Path) -> anyhow::Result<Self> {
        Usrsctp::build(folder).map(Self)
    }

    /// Goodput over all links of a lab, in Mbit/s. What the receiver says goes to `log`.
    pub(crate) fn transfer(
        &self,
        lab: &Lab,
        direction: Direction,
        bytes: ByteCount,
        log: &Path,
    ) -> Result<f64, StepError> {
        let exchange = Exchange {
            usrsctp: &self.0,
            direction,
            sender: Stack::UsrsctpCmt,
            receiver: Stack::UsrsctpCmt,
            bytes: bytes.as_u64(),
            message: MESSAGE,
            links: usize::MAX,
        };
        let [_, received] = exchange.make(lab, log, |_| Ok(()))?;
        Ok(received.mbps())
    }
}

/// The client's addresses on so many links, and the server's.
fn addresses(lab: &Lab, links: usize) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let of = |address: fn(&crate::topology::LabLink) -> Ipv4Addr| {
        let links = lab.links().iter().take(links);
        links.map(|link| IpAddr::V4(address(link))).collect()
    };
    (of(|link| link.address()), of(|link| link.gateway))
}

impl Row {
    fn line(&self) -> String {
        let last = self.samples.last();
        let said = match (last, self.failures.last()) {
            (_, Some(failure)) => format!("failed: {failure}"),
            (Some(mbps), _) => format!("{mbps:.2} Mbit/s"),
            _ => "-".to_owned(),
        };
        let [sender, receiver] = [self.sender, self.receiver].map(Stack::name);
        format!("{} {sender} to {receiver}: {said}", self.direction.name())
    }
}

impl Findings for AssociationReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = [
            "",
            "sender",
            "receiver",
            "Mbit/s",
            "of the sum",
            "CPU s/GB",
            "",
            "failed",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let number = |value: Option<f64>, digits: usize| {
                value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
            };
            rows.push(vec![
                row.direction.name().to_owned(),
                row.sender.name().to_owned(),
                row.receiver.name().to_owned(),
                number(row.mbps, 2),
                number(row.mbps.map(|mbps| mbps / self.sum), 3),
                number(row.cpu_per_gigabyte[0], 2),
                number(row.cpu_per_gigabyte[1], 2),
                row.failures.len().to_string(),
            ]);
        }
        let mut text = self.head.title("associations over all links");
        text.push_str(&aligned(&rows));
        text
    }

    fn failures(&self) -> Vec<String> {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.failures.clone()).collect()
    }
}

const PAIRS: [(Stack, Stack); 5] = [
    (Stack::Hawser, Stack::Hawser),
    (Stack::Hawser, Stack::Usrsctp),
    (Stack::Usrsctp, Stack::Hawser),
    (Stack::Usrsctp, Stack::Usrsctp),
    (Stack::UsrsctpCmt, Stack::UsrsctpCmt),
];
/// Fills a packet of most links.
const MESSAGE: u32 = 1400;
const LIMIT: Duration = Duration::from_secs(300);
const CUT_AFTER: Duration = Duration::from_millis(200);
