//! Small requests on one open connection, one after another, alone and beside a bulk transfer:
//! how long does an answer take?

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use hawser_types::ByteCount;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};
use serde::Serialize;

use crate::commands::print;
use crate::emulator::Counters;
use crate::interrupt::TemporaryFolder;
use crate::measure::{Bench, Machine, Programs, Session, StepError, aligned, available_controls};
use crate::meter::{self, Congestion, Order};
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// What to do.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) scenario: Scenario,
    /// Requests in each phase.
    pub(crate) count: u32,
    /// Bytes of a request, and of its answer.
    pub(crate) size: u32,
    pub(crate) hawser: Programs,
    pub(crate) json: bool,
    /// Also write JSON into this folder.
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    scenario: String,
    unix_time: u64,
    machine: Machine,
    count: u32,
    size: u32,
    /// The link with the shortest round trip, from 1; plain TCP uses it alone.
    better_link: usize,
    /// Its round trip when nothing waits, from the scenario.
    base_rtt_seconds: f64,
    phases: Vec<Phase>,
}

/// All requests of one carrier beside one kind of bulk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Phase {
    by: String,
    /// Which way the bulk went; nothing without bulk.
    bulk: Option<Direction>,
    /// What passed each link meanwhile in the bulk's direction, in Mbit/s with all headers.
    link_mbps: Vec<f64>,
    /// Nothing when no answer came.
    rtt_seconds: Option<Spread>,
    p99_over_base_rtt: Option<f64>,
    failure: Option<String>,
    /// What the emulator did in the phase's lab; nothing when there was none.
    emulator: Option<Counters>,
    /// Every round trip in seconds, in order.
    samples: Vec<f64>,
}

/// How times are spread, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    min: f64,
    median: f64,
    p90: f64,
    p99: f64,
    max: f64,
}

/// Who carries requests and bulk.
#[derive(Clone, Copy, Debug)]
enum Carrier {
    /// Hawser, over all links.
    Hawser,
    /// Plain TCP, on the better link alone.
    Tcp(Congestion),
}

/// Measures every carrier without bulk and beside bulk either way, and reports.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = TemporaryFolder::create()?;
    let (better, base_rtt) = better_link(&options.scenario);
    let tcp = available_controls().into_iter().map(Carrier::Tcp);
    let mut phases = Vec::new();
    for carrier in std::iter::once(Carrier::Hawser).chain(tcp) {
        for bulk in [None, Some(Direction::Put), Some(Direction::Get)] {
            eprintln!("{carrier}, bulk: {}", bulk.map_or("none", Direction::name));
            // What one phase leaves in queues and buffers must not reach the next.
            let place = folder.path().join(format!("phase-{}", phases.len()));
            let subject = Subject {
                options,
                carrier,
                bulk,
                better,
            };
            phases.push(subject.phase(&place, base_rtt));
        }
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let report = Report {
        scenario: options.scenario.name.clone(),
        unix_time: now.map_or(0, |since| since.as_secs()),
        machine: Machine::of_this(),
        count: options.count,
        size: options.size,
        better_link: better + 1,
        base_rtt_seconds: base_rtt.as_secs_f64(),
        phases,
    };
    if let Some(folder) = &options.out {
        let path = write(&report, folder)?;
        eprintln!("written: {}", path.display());
    }
    if options.json {
        print(&serde_json::to_string(&report)?)?;
    } else {
        print(&render(&report))?;
    }
    let failed = report.phases.iter().any(|phase| phase.failure.is_some());
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// One phase to measure.
#[derive(Clone, Copy, Debug)]
struct Subject<'a> {
    options: &'a Options,
    carrier: Carrier,
    bulk: Option<Direction>,
    better: usize,
}

impl Subject<'_> {
    fn phase(&self, place: &Path, base_rtt: Duration) -> Phase {
        let mut phase = Phase {
            by: self.carrier.to_string(),
            bulk: self.bulk,
            link_mbps: Vec::new(),
            rtt_seconds: None,
            p99_over_base_rtt: None,
            failure: None,
            emulator: None,
            samples: Vec::new(),
        };
        let measured = self.measure(place, &mut phase);
        phase.failure = measured.err().map(|error| error.to_string());
        phase.rtt_seconds = Spread::of(&phase.samples);
        phase.p99_over_base_rtt = phase
            .rtt_seconds
            .filter(|_| !base_rtt.is_zero())
            .map(|spread| spread.p99 / base_rtt.as_secs_f64());
        phase
    }

    /// In a lab of its own; what was measured before a failure is kept.
    fn measure(&self, place: &Path, phase: &mut Phase) -> Result<(), StepError> {
        let scenario = &self.options.scenario;
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(scenario)?, place)?;
        let mut session = match self.carrier {
            Carrier::Hawser => Some(Session::start(&bench, &self.options.hawser, 1)?),
            Carrier::Tcp(_) => None,
        };
        let limit = LIMIT_EACH * self.options.count + SETTLING;
        let order = Order {
            patience: PATIENCE,
            ..self.order(&bench, session.as_ref(), Direction::Put, self.size())
        };
        let mut stream = bench.lab().client().run(|| meter::open_echo(&order))?;
        let mut requests = Requests::new(self.options, limit);
        // The first answer also waits for the server to be reached.
        requests.exchange(&mut stream)?;
        let mut bulk = None;
        if let Some(direction) = self.bulk {
            // More than all links could carry until the limit, so that it never ends by itself.
            let bytes = scenario.total_rate(direction) * (limit + limit);
            let order = self.order(&bench, session.as_ref(), direction, bytes);
            bulk = Some(bench.start_transfer(&order)?);
            std::thread::sleep(SETTLING);
        }
        let before = self.traffic(&bench)?;
        let start = Instant::now();
        let answered = requests.run(&mut stream, &mut phase.samples);
        let seconds = start.elapsed().as_secs_f64();
        let passed = self.traffic(&bench)?.into_iter().zip(before);
        phase.link_mbps = passed
            .map(|(after, before)| after.saturating_sub(before) as f64 * 8e-6 / seconds)
            .collect();
        let counters = bench.lab().counters();
        phase.emulator = Some(counters);
        // An end of a program says more than the time-out that comes of it.
        if let Some(bulk) = &mut bulk {
            bulk.check_alive()?;
        }
        if let Some(session) = &mut session {
            session.check_alive()?;
        }
        answered?;
        match counters.missed {
            0 => Ok(()),
            missed => Err(StepError::Missed(missed)),
        }
    }

    fn size(&self) -> ByteCount {
        ByteCount::new(self.options.size.into())
    }

    fn order(
        &self,
        bench: &Bench,
        session: Option<&Session>,
        direction: Direction,
        bytes: ByteCount,
    ) -> Order {
        match (self.carrier, session) {
            (Carrier::Tcp(control), _) => bench.tcp_order(self.better, control, direction, bytes),
            (Carrier::Hawser, Some(session)) => {
                bench.socks_order(session.socks(), direction, bytes)
            }
            (Carrier::Hawser, None) => bench.plain_order(direction, bytes),
        }
    }

    /// Bytes that have passed each link in the bulk's direction; nothing without bulk.
    fn traffic(&self, bench: &Bench) -> io::Result<Vec<u64>> {
        let Some(direction) = self.bulk else {
            return Ok(Vec::new());
        };
        let lab = bench.lab();
        let text = lab
            .client()
            .run(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let links = lab.links().iter();
        Ok(links
            .map(|link| interface_bytes(&text, &link.interface, direction).unwrap_or(0))
            .collect())
    }
}

/// The requests of a phase.
#[derive(Debug)]
struct Requests {
    random: SmallRng,
    count: u32,
    request: Vec<u8>,
    answer: Vec<u8>,
    limit: Duration,
}

impl Requests {
    fn new(options: &Options, limit: Duration) -> Self {
        let size = options.size as usize;
        Self {
            random: SmallRng::seed_from_u64(options.scenario.seed),
            count: options.count,
            request: vec![0; size],
            answer: vec![0; size],
            limit,
        }
    }

    fn run(&mut self, stream: &mut TcpStream, samples: &mut Vec<f64>) -> io::Result<()> {
        let start = Instant::now();
        for number in 0..self.count {
            if start.elapsed() > self.limit {
                let text = format!("{number} answers, no more, in {:?}", self.limit);
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            let pause = self.random.random_range(SHORTEST_PAUSE..=LONGEST_PAUSE);
            std::thread::sleep(pause);
            let taken = self.exchange(stream).map_err(|error| {
                let text = format!("request {} has no answer: {error}", number + 1);
                io::Error::new(error.kind(), text)
            })?;
            samples.push(taken.as_secs_f64());
        }
        Ok(())
    }

    fn exchange(&mut self, stream: &mut TcpStream) -> io::Result<Duration> {
        self.random.fill_bytes(&mut self.request);
        let start = Instant::now();
        stream.write_all(&self.request)?;
        stream.read_exact(&mut self.answer)?;
        let taken = start.elapsed();
        if self.answer == self.request {
            Ok(taken)
        } else {
            Err(io::Error::other("the answer is not what was asked"))
        }
    }
}

impl Spread {
    fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            min: *sorted.first()?,
            median: percentile(&sorted, 50)?,
            p90: percentile(&sorted, 90)?,
            p99: percentile(&sorted, 99)?,
            max: *sorted.last()?,
        })
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hawser => f.write_str("hawser"),
            Self::Tcp(congestion) => write!(f, "tcp {}", congestion.name()),
        }
    }
}

/// The smallest value that at least `percent` of a hundred values do not exceed (nearest rank).
fn percentile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The link with the shortest way there and back, from 0, and how long that takes.
fn better_link(scenario: &Scenario) -> (usize, Duration) {
    let round_trips = scenario.links.iter();
    round_trips
        .map(|link| link.up.delay + link.down.delay)
        .enumerate()
        .min_by_key(|(_, round_trip)| *round_trip)
        .unwrap_or_default()
}

/// What the kernel counted on an interface, from the text of `/proc/net/dev`.
fn interface_bytes(text: &str, interface: &str, direction: Direction) -> Option<u64> {
    let field = match direction {
        Direction::Get => RECEIVED_FIELD,
        Direction::Put => SENT_FIELD,
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, fields) = lines.find(|(name, _)| name.trim() == interface)?;
    fields.split_whitespace().nth(field)?.parse().ok()
}

/// Writes the report as `FOLDER/request-NAME.json`, whole or not at all.
fn write(report: &Report, folder: &Path) -> io::Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, report)?;
    let path = folder.join(format!("request-{}.json", report.scenario));
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

fn render(report: &Report) -> String {
    let header = [
        "carrier",
        "bulk",
        "min",
        "median",
        "p90",
        "p99",
        "max",
        "p99 / RTT",
        "links, Mbit/s",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(report.phases.iter().map(row));
    let mut text = format!(
        "{}: {} requests of {} bytes, round trips in ms; RTT of the better link ({}) {:.1} ms \
         (kernel {}, {} cores)\n\n",
        report.scenario,
        report.count,
        report.size,
        report.better_link,
        report.base_rtt_seconds * 1e3,
        report.machine.kernel,
        report.machine.cores
    );
    text.push_str(&aligned(&rows));
    for phase in &report.phases {
        if let Some(failure) = &phase.failure {
            let bulk = phase.bulk.map_or("none", Direction::name);
            text.push_str(&format!("failed: {}, bulk {bulk}: {failure}\n", phase.by));
        }
    }
    text
}

fn row(phase: &Phase) -> Vec<String> {
    let show = |value: Option<String>| value.unwrap_or("-".to_owned());
    let milliseconds =
        |of: fn(&Spread) -> f64| show(phase.rtt_seconds.map(|s| format!("{:.1}", of(&s) * 1e3)));
    let rates = phase.link_mbps.iter().map(|mbps| format!("{mbps:.1}"));
    vec![
        phase.by.clone(),
        phase.bulk.map_or("none", Direction::name).to_owned(),
        milliseconds(|spread| spread.min),
        milliseconds(|spread| spread.median),
        milliseconds(|spread| spread.p90),
        milliseconds(|spread| spread.p99),
        milliseconds(|spread| spread.max),
        show(phase.p99_over_base_rtt.map(|ratio| format!("{ratio:.2}"))),
        rates.collect::<Vec<_>>().join(" + "),
    ]
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// One answer that takes longer ends the phase.
const PATIENCE: Duration = Duration::from_secs(20);
/// What all requests together may take, for each of them.
const LIMIT_EACH: Duration = Duration::from_secs(1);
/// From the bulk's start to the first request: past slow start, with the queues as they stay.
const SETTLING: Duration = Duration::from_secs(3);
/// Columns of `/proc/net/dev` behind the name.
const RECEIVED_FIELD: usize = 0;
const SENT_FIELD: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_value_of_its_nearest_rank() {
        let values: Vec<f64> = (1..=500).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), Some(250.0));
        assert_eq!(percentile(&values, 90), Some(450.0));
        assert_eq!(percentile(&values, 99), Some(495.0));
        assert_eq!(percentile(&values, 100), Some(500.0));
    }

    #[test]
    fn a_percentile_of_few_values_is_one_of_them() {
        assert_eq!(percentile(&[], 99), None);
        assert_eq!(percentile(&[7.0], 0), Some(7.0));
        assert_eq!(percentile(&[7.0], 99), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 50), Some(2.0));
    }

    #[test]
    fn a_spread_does_not_depend_on_the_order_of_samples() {
        assert_eq!(Spread::of(&[]), None);
        let spread = Spread::of(&[3.0, 1.0, 2.0]).unwrap();
        let Spread {
            min, median, max, ..
        } = spread;
        assert_eq!((min, median, max), (1.0, 2.0, 3.0));
    }

    #[test]
    fn traffic_is_read_in_the_direction_asked_for() {
        let text = "Inter-|   Receive\n face |bytes\n    lo: 1 0 0 0 0 0 0 0 2 0\n    \
                    l1: 300 4 0 0 0 0 0 0 500 6 0\n   l10:7 0 0 0 0 0 0 0 8 0\n";
        let of = |interface, direction| interface_bytes(text, interface, direction);
        assert_eq!(of("l1", Direction::Get), Some(300));
        assert_eq!(of("l1", Direction::Put), Some(500));
        assert_eq!(of("l10", Direction::Put), Some(8));
        assert_eq!(of("l2", Direction::Put), None);
    }
}
