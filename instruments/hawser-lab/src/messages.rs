//! Messages of a kilobyte on an otherwise idle stream, beside many busy streams: their delay over
//! TCP channels, and over an association.

mod stage;

use std::path::Path;
use std::time::{Duration, Instant};

use hawser_session::TransportChoice;
use serde::Serialize;

use self::stage::{Busy, Sink};
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs, Session, StepError};
use crate::scenario::Scenario;
use crate::statistics::Spread;
use crate::statistics::median;
use crate::text_table::aligned;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Streams in all, of which one sends messages and the others as much as they can
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(2..=1000))]
    streams: u32,
    /// Seconds for which messages are sent
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(5..=3600))]
    seconds: u64,
    /// Repetitions of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct MessagesReport {
    #[serde(flatten)]
    head: Head,
    streams: u32,
    span_seconds: f64,
    repeat: u32,
    verdicts: Vec<Verdict>,
    rows: Vec<Row>,
}

/// Results of one transport.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    transport: &'static str,
    /// Seconds from sending a message to its arrival; of all runs together.
    delay_seconds: Option<Spread>,
    /// Rate of the busy streams together, in each run.
    busy_mbps: Vec<f64>,
    /// Every message's delay in order.
    samples: Vec<f64>,
    failures: Vec<String>,
}

/// Measures both transports in turns, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<MessagesReport> {
    let mut rows = TRANSPORTS.map(|transport| Row {
        transport: transport.name(),
        delay_seconds: None,
        busy_mbps: Vec::new(),
        samples: Vec::new(),
        failures: Vec::new(),
    });
    for number in 1..=options.repeat {
        for (row, transport) in rows.iter_mut().zip(TRANSPORTS) {
            let programs = programs.clone().with_transport(Some(transport));
            let place = folder.join(format!("{}-{number}", row.transport));
            if let Err(error) = measure(scenario, options, &programs, &place, row) {
                row.failures.push(error.to_string());
            }
            eprintln!("  {}", row.line());
        }
    }
    let rows = rows.map(|row| Row {
        delay_seconds: Spread::of(&row.samples),
        ..row
    });
    Ok(MessagesReport {
        head: Head::new("messages", &scenario.name),
        streams: options.streams,
        span_seconds: options.seconds as f64,
        repeat: options.repeat,
        verdicts: verdicts(&rows).into_iter().collect(),
        rows: rows.into(),
    })
}

/// One transport once, in a lab of its own.
fn measure(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    place: &Path,
    row: &mut Row,
) -> Result<(), StepError> {
    std::fs::create_dir_all(place)?;
    let bench = Bench::new(Lab::shaped(scenario)?, place)?;
    let mut session = Session::start(&bench, programs, 1)?;
    let sink = Sink::open(bench.lab().server())?;
    let (client, socks) = (bench.lab().client(), session.socks());
    let busy = Busy::start(client, socks, options.streams - 1)?;
    let deadline = Instant::now() + LIMIT;
    while sink.busy_streams() < u64::from(options.streams - 1) {
        if Instant::now() > deadline {
            let text = format!("only {} streams began", sink.busy_streams());
            return Err(std::io::Error::other(text).into());
        }
        std::thread::sleep(POLL);
    }
    // Slow start fills queues once with every transport.
    std::thread::sleep(SETTLING);
    let (before, began) = (sink.busy_bytes(), Instant::now());
    let sent = stage::send(client, socks, Duration::from_secs(options.seconds))?;
    let bits = (sink.busy_bytes() - before) as f64 * 8.0;
    row.busy_mbps
        .push(bits / 1e6 / began.elapsed().as_secs_f64());
    let arrived = sink.arrivals(sent.len(), LIMIT)?;
    drop(busy);
    let delays = sent.iter().zip(&arrived);
    row.samples
        .extend(delays.map(|(sent, arrived)| arrived.duration_since(*sent).as_secs_f64()));
    session.check_alive()?;
    bench.check_emulator()
}

/// By how much messages are quicker over an association.
fn verdicts(rows: &[Row]) -> Option<Verdict> {
    let p99 = |name| {
        let row = rows.iter().find(|row| row.transport == name)?;
        Some(row.delay_seconds?.p99)
    };
    let gain = p99("tcp")? / p99("sctp")?;
    let what = "p99 over tcp, of that over sctp".to_owned();
    Some(Verdict::new(what, gain, Asked::AtLeast(ASKED)))
}

impl Row {
    fn line(&self) -> String {
        let said = match (Spread::of(&self.samples), self.failures.last()) {
            (_, Some(failure)) => format!("failed: {failure}"),
            (Some(spread), _) => format!(
                "median {:.1} ms, p99 {:.1} ms so far",
                spread.median * 1e3,
                spread.p99 * 1e3
            ),
            _ => "-".to_owned(),
        };
        format!("{}: {said}", self.transport)
    }
}

impl Findings for MessagesReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let header = [
            "transport",
            "messages",
            "median, ms",
            "p90",
            "p99",
            "max",
            "busy streams, Mbit/s",
        ];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let of = |of: fn(&Spread) -> f64| {
                let spread = row.delay_seconds.as_ref();
                spread.map_or("-".to_owned(), |it| format!("{:.1}", of(it) * 1e3))
            };
            let busy = median(row.busy_mbps.iter().copied());
            rows.push(vec![
                row.transport.to_owned(),
                row.samples.len().to_string(),
                of(|it| it.median),
                of(|it| it.p90),
                of(|it| it.p99),
                of(|it| it.max),
                busy.map_or("-".to_owned(), |mbps| format!("{mbps:.2}")),
            ]);
        }
        let mut text = self.head.title(&format!(
            "{} bytes every 100 ms beside {} busy streams, one way; {} x {} s",
            stage::MESSAGE,
            self.streams - 1,
            self.repeat,
            self.span_seconds
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

const TRANSPORTS: [TransportChoice; 2] = [TransportChoice::Tcp, TransportChoice::Sctp];
/// Number of times quicker the one in a hundred is to be.
const ASKED: f64 = 3.0;
const SETTLING: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gain_is_that_of_the_slowest_in_a_hundred() {
        let row = |transport, seconds: f64| Row {
            transport,
            delay_seconds: Spread::of(&[seconds]),
            busy_mbps: Vec::new(),
            samples: Vec::new(),
            failures: Vec::new(),
        };
        let verdict = verdicts(&[row("tcp", 0.4), row("sctp", 0.1)]).unwrap();
        assert_eq!((verdict.figure, verdict.met), (Some(4.0), true));
        assert!(!verdicts(&[row("tcp", 0.2), row("sctp", 0.1)]).unwrap().met);
        assert_eq!(verdicts(&[row("tcp", 0.2)]), None);
    }
}
