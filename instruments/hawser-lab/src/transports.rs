//! Goodput of a session over TCP channels, over an association, and with its own choice, compared
//! with usrsctp with its concurrent multipath transfer: all in one run.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;
use serde::Serialize;

use crate::association::ConcurrentMultipath;
use crate::experiment::{Common, Directions, Findings, Head, Several};
use crate::measure::{Bench, Programs, Session, StepError, limit_for};
use crate::scenario::{Direction, Scenario};
use crate::statistics::median;
use crate::text_table::aligned;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

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
    /// Direction of the bytes
    #[arg(long, default_value = "both")]
    direction: Directions,
    /// Repetitions of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Bytes of each transfer; else what the scenario says
    #[arg(long)]
    bytes: Option<ByteCount>,
    /// Leave usrsctp out
    #[arg(long)]
    only_hawser: bool,
}

/// The transports that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Transport {
    Tcp,
    Sctp,
    Auto,
    UsrsctpCmt,
}

/// One transport in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    direction: Direction,
    transport: Transport,
    /// Median goodput, Mbit/s, of sessions that have just begun.
    first: Option<f64>,
    /// The same of the sessions' second transfers.
    warm: Option<f64>,
    /// Every transfer's goodput: the first, and the second.
    samples: Vec<[f64; 2]>,
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct TransportsReport {
    #[serde(flatten)]
    head: Head,
    repeat: u32,
    /// A link of the scenario loses packets, or is far away.
    lossy_or_long: bool,
    verdicts: Vec<Verdict>,
    rows: Vec<Row>,
}

impl Arguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        let measure =
            |scenario: &Scenario, folder: &Path| run(scenario, &self.options, &programs, folder);
        self.common.measure_all(&self.several, measure)
    }
}

/// Measures every transport in turns, with logs in `folder`.
fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<TransportsReport> {
    let mut notes = None;
    let peer = if options.only_hawser {
        None
    } else {
        ConcurrentMultipath::build(folder)
            .map_err(|error| notes = Some(error.to_string()))
            .ok()
    };
    if let Some(note) = notes {
        eprintln!("  {note}");
    }
    let mut rows = Vec::new();
    for direction in options.direction.directions() {
        let transports = Transport::ALL.into_iter();
        let transports = transports.filter(|it| *it != Transport::UsrsctpCmt || peer.is_some());
        rows.extend(transports.map(|transport| Row::new(direction, transport)));
    }
    for number in 1..=options.repeat {
        for row in &mut rows {
            let case = Case {
                scenario,
                options,
                programs,
                peer: peer.as_ref(),
            };
            let name = format!("{}-{}-{number}", row.direction.name(), row.transport.name());
            match case.measure(row.direction, row.transport, &folder.join(name)) {
                Ok(sample) => row.samples.push(sample),
                Err(error) => row.failures.push(error.to_string()),
            }
            eprintln!("  {:<16} {}", scenario.name, row.line());
        }
    }
    for row in &mut rows {
        row.first = median(row.samples.iter().map(|sample| sample[0]));
        row.warm = median(row.samples.iter().map(|sample| sample[1]));
    }
    let lossy_or_long = is_lossy_or_long(scenario);
    Ok(TransportsReport {
        head: Head::new("transports", &scenario.name),
        repeat: options.repeat,
        lossy_or_long,
        verdicts: verdicts(&rows, lossy_or_long),
        rows,
    })
}

struct Case<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    programs: &'a Programs,
    peer: Option<&'a ConcurrentMultipath>,
}

impl Case<'_> {
    fn measure(
        &self,
        direction: Direction,
        transport: Transport,
        place: &Path,
    ) -> Result<[f64; 2], StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(self.scenario)?, place)?;
        let events = &self.scenario.events;
        let bytes = self.options.bytes.unwrap_or(self.scenario.payload);
        if let (Transport::UsrsctpCmt, Some(peer)) = (transport, self.peer) {
            let log = place.join("receiver.log");
            let transfer = || peer.transfer(bench.lab(), direction, bytes, &log);
            return bench.during(events, transfer).map(|mbps| [mbps; 2]);
        }
        let named = transport.name().parse().ok();
        let programs = self.programs.clone().with_transport(named);
        let mut session = Session::start(&bench, &programs, 1)?;
        let order = bench.socks_order(session.socks(), direction, bytes);
        let rate = self.scenario.total_rate(direction);
        let limit = limit_for(bytes, rate, events, true);
        let first = bench.transfer(&order, limit, events)?;
        std::thread::sleep(PAUSE);
        let second = bench.transfer(&order, limit, events)?;
        session.check_alive()?;
        bench.check_emulator()?;
        Ok([first.mbps, second.mbps])
    }
}

impl Row {
    fn new(direction: Direction, transport: Transport) -> Self {
        Self {
            direction,
            transport,
            first: None,
            warm: None,
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Returns the medians of first transfers, and of second ones.
    fn medians(&self) -> [Option<f64>; 2] {
        [self.first, self.warm]
    }

    fn line(&self) -> String {
        let said = match (self.samples.last(), self.failures.last()) {
            (_, Some(failure)) => format!("failed: {failure}"),
            (Some([first, warm]), _) => format!("{first:.2}, {warm:.2} Mbit/s"),
            _ => "-".to_owned(),
        };
        format!(
            "{} {}: {said}",
            self.direction.name(),
            self.transport.name()
        )
    }
}

impl Transport {
    const ALL: [Self; 4] = [Self::Tcp, Self::Sctp, Self::Auto, Self::UsrsctpCmt];

    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Auto => "auto",
            Self::UsrsctpCmt => "usrsctp-cmt",
        }
    }
}

/// Returns whether a transport of its own is to gain something there.
fn is_lossy_or_long(scenario: &Scenario) -> bool {
    let lines = scenario
        .links
        .iter()
        .flat_map(|link| [&link.up, &link.down]);
    let loses = lines.map(|line| line.loss.mean).fold(0.0, f64::max) >= SOME_LOSS;
    let longest = scenario.links.iter().map(|link| link.round_trip()).max();
    loses || longest.unwrap_or_default() >= LONG
}

fn verdicts(rows: &[Row], lossy_or_long: bool) -> Vec<Verdict> {
    let least = if lossy_or_long { 1.0 } else { OTHERWISE };
    let mut all = Vec::new();
    for row in rows {
        let of = |transport| {
            let mut rows = rows.iter().filter(|it| it.direction == row.direction);
            let medians = rows.find(|it| it.transport == transport).map(Row::medians);
            medians.unwrap_or_default()
        };
        let (tcp, sctp) = (of(Transport::Tcp), of(Transport::Sctp));
        for (place, name) in ["first", "warm"].into_iter().enumerate() {
            let (Some(tcp), Some(own)) = (tcp[place], row.medians()[place]) else {
                continue;
            };
            let best = tcp.max(sctp[place].unwrap_or(0.0));
            let (beside, than, asked) = match row.transport {
                Transport::Sctp => ("tcp", tcp, least),
                Transport::Auto => ("the better", best, OTHERWISE),
                Transport::Tcp | Transport::UsrsctpCmt => continue,
            };
            let (direction, transport) = (row.direction.name(), row.transport.name());
            let what = format!("{direction} {name}: {transport} of {beside}");
            all.push(Verdict::new(what, own / than, Asked::AtLeast(asked)));
        }
    }
    all
}

impl Findings for TransportsReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = ["", "transport", "first, Mbit/s", "warm, Mbit/s", "failed"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        for row in &self.rows {
            rows.push(vec![
                row.direction.name().to_owned(),
                row.transport.name().to_owned(),
                show(row.first),
                show(row.warm),
                row.failures.len().to_string(),
            ]);
        }
        let mut text = self.head.title("what carries a session");
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

/// From here on TCP's congestion control feels what is lost.
const SOME_LOSS: f64 = 0.001;
/// From here on a round trip is a long one.
const LONG: Duration = Duration::from_millis(150);
/// Least ratio where there is nothing to gain.
const OTHERWISE: f64 = 0.95;
/// Between the transfers of a session.
const PAUSE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn row(transport: Transport, mbps: f64) -> Row {
        Row {
            first: Some(mbps),
            warm: Some(mbps),
            ..Row::new(Direction::Put, transport)
        }
    }

    #[test]
    fn an_association_is_held_against_tcp_and_the_choice_against_the_better() {
        let rows = [
            row(Transport::Tcp, 10.0),
            row(Transport::Sctp, 9.6),
            row(Transport::Auto, 9.4),
            row(Transport::UsrsctpCmt, 1.0),
        ];
        let met = |lossy| -> Vec<bool> {
            let all = verdicts(&rows, lossy);
            all.iter().map(|verdict| verdict.met).collect()
        };
        assert_eq!(met(false), [true, true, false, false]);
        assert_eq!(met(true), [false, false, false, false]);
    }
}
