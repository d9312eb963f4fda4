//! MMS-E1 and E2: a stream of datagrams and transfers on a host whose links come and go.

mod report;
mod stream;
mod table;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hawser_types::{ByteCount, Rate};

use self::report::{Carried, RateRow, RoamingReport, StreamRow};
use self::stream::{Datagram, LENGTH, Stream, timeline};
use crate::captured::{Capture, Captured, Setup};
use crate::experiment::{Directions, Head};
use crate::measure::{Bench, Programs, StepError, limit_for};
use crate::meter::{Congestion, Order};
use crate::scenario::{Action, Direction, Doing, Phase, Scenario, Step};
use crate::topology::Lab;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Direction of stream and transfers
    #[arg(long, default_value = "get")]
    direction: Directions,
    /// Events come so many times as late: 5 gives e1.toml, and 10 gives e2.toml, the paper's times
    #[arg(long, value_name = "TIMES", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    slowed: u32,
}

/// Measures one scenario, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<RoamingReport> {
    std::fs::create_dir_all(folder)?;
    let scenario = &scenario.slowed(options.slowed);
    let phases = scenario.phases();
    let mut report = RoamingReport::new(Head::new("roaming", &scenario.name), scenario, &phases);
    let mut measurement = Measurement {
        scenario,
        phases,
        bench: Bench::new(Lab::shaped(scenario)?, folder)?,
        programs,
        runs: 0,
    };
    for direction in options.direction.directions() {
        for (policy, announced) in [("auto", true), ("auto", false), ("wrr", false)] {
            let row = measurement.stream(direction, policy, announced);
            report.take(row, |report, row| report.streams.push(row));
        }
        for carried in Carried::ALL {
            let row = measurement.rates(direction, carried);
            report.take(row, |report, row| report.rates.push(row));
        }
    }
    measurement.bench.check_emulator()?;
    report.judge();
    Ok(report)
}

struct Measurement<'a> {
    scenario: &'a Scenario,
    phases: Vec<Phase>,
    bench: Bench,
    programs: &'a Programs,
    runs: u32,
}

impl Measurement<'_> {
    /// A stream that each link but the slowest carries with ease, so that only the choice of the
    /// path, and what happens to it, can delay it.
    fn stream(
        &mut self,
        direction: Direction,
        policy: &'static str,
        announced: bool,
    ) -> Result<StreamRow, StepError> {
        let rate = self.rate_of(0, direction).bits_per_second() / 4;
        let rate = Rate::from_bits_per_second(rate);
        let datagrams = self.datagrams(direction, policy, announced, rate)?;
        let row = StreamRow::new(direction, policy, announced, &self.phases, &datagrams);
        eprintln!("  stream: {row:?}");
        Ok(row)
    }

    fn rates(&mut self, direction: Direction, carried: Carried) -> Result<RateRow, StepError> {
        let announced = carried.is_announced();
        let timeline = match carried {
            Carried::Datagrams => {
                let all = (0..self.scenario.links.len()).map(|link| self.rate_of(link, direction));
                let offered = all.sum::<Rate>().bits_per_second() as f64 * OFFERED;
                let offered = Rate::from_bits_per_second(offered as u64);
                let datagrams = self.datagrams(direction, "auto", announced, offered)?;
                timeline(&datagrams)
            }
            _ => self.transfer(direction, carried)?,
        };
        let rate = |link| self.rate_of(link, direction);
        let row = RateRow::new(direction, carried, &self.phases, rate, timeline);
        eprintln!("  rates: {} {:?}", row.carried, row.phases);
        Ok(row)
    }

    fn datagrams(
        &mut self,
        direction: Direction,
        policy: &str,
        announced: bool,
        rate: Rate,
    ) -> Result<Vec<Datagram>, StepError> {
        let stream = Stream {
            direction,
            rate,
            span: self.span(),
        };
        self.with_daemons(policy, true, |captured, bench, scenario| {
            let steps = scenario.steps(announced);
            let (begin, begun) = mpsc::channel::<()>();
            std::thread::scope(|scope| {
                let (stop, stopped) = mpsc::channel::<()>();
                let play = scope.spawn(move || match begun.recv() {
                    Ok(()) => play(captured, bench, &steps, &stopped),
                    Err(_) => Ok(()),
                });
                let datagrams = stream.run(bench.lab(), move || {
                    let _ = begin.send(());
                });
                drop(stop);
                play.join().unwrap_or(Ok(()))?;
                Ok(datagrams?)
            })
        })
    }

    /// Bytes that a TCP connection has brought in each bin. It has as many to bring as the links
    /// carry with their headers, so that it goes on for longer than the span.
    fn transfer(&mut self, direction: Direction, carried: Carried) -> Result<Vec<u64>, StepError> {
        let bytes = self.phases.iter().map(|phase| {
            let links = phase
                .links
                .iter()
                .map(|link| self.rate_of(*link, direction));
            links.sum::<Rate>() * (phase.until - phase.from)
        });
        let bytes = bytes.fold(ByteCount::ZERO, |sum, part| sum + part);
        let as_packets = carried != Carried::Streams;
        let limit = limit_for(
            bytes,
            self.rate_of(0, direction),
            &self.scenario.events,
            false,
        );
        self.with_daemons("auto", as_packets, |captured, bench, scenario| {
            let congestion = as_packets.then_some(Congestion::Cubic);
            let port = crate::meter::port(false, congestion);
            let order = Order {
                congestion,
                server: std::net::SocketAddrV4::new(crate::topology::SERVER, port),
                ..bench.plain_order(direction, bytes)
            };
            let steps = scenario.steps(carried.is_announced());
            std::thread::scope(|scope| {
                let (stop, stopped) = mpsc::channel::<()>();
                let play = scope.spawn(move || play(captured, bench, &steps, &stopped));
                let outcome = bench.transfer(&order, limit, &[]);
                drop(stop);
                play.join().unwrap_or(Ok(()))?;
                Ok(outcome?.timeline)
            })
        })
    }

    /// Daemons of their own for one run, and links as they are at its beginning.
    fn with_daemons<T>(
        &mut self,
        policy: &str,
        tcp_as_packets: bool,
        work: impl FnOnce(&Captured<'_>, &Bench, &Scenario) -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        self.runs += 1;
        let (bench, scenario) = (&self.bench, self.scenario);
        let folder = bench.folder().join(format!("run-{}", self.runs));
        let absent = scenario.absent_links();
        for link in 0..scenario.links.len() {
            let action = if absent.contains(&link) {
                Action::CarrierDown
            } else {
                Action::CarrierUp
            };
            bench.lab().apply(link, action)?;
        }
        let setup = Setup {
            capture: Capture::System,
            policy,
            tcp_as_packets,
        };
        let captured = Captured::start(bench, self.programs, &folder, setup)?;
        work(&captured, bench, scenario)
    }

    fn rate_of(&self, link: usize, direction: Direction) -> Rate {
        self.scenario.links[link].line(direction).rate
    }

    fn span(&self) -> Duration {
        self.phases
            .last()
            .map_or(Duration::ZERO, |phase| phase.until)
    }
}

/// Does all steps at their times from now on, until `stopped`.
fn play(
    captured: &Captured<'_>,
    bench: &Bench,
    steps: &[Step],
    stopped: &mpsc::Receiver<()>,
) -> Result<(), StepError> {
    let start = Instant::now();
    for step in steps {
        let left = step.at.saturating_sub(start.elapsed());
        if stopped.recv_timeout(left) != Err(mpsc::RecvTimeoutError::Timeout) {
            break;
        }
        match step.what {
            Doing::Happen(action) => bench.lab().apply(step.link, action)?,
            Doing::Signal(strength) => captured.tell_signal(step.link, strength)?,
        }
    }
    Ok(())
}

/// Of the rate of all links that datagrams are offered at: what is added to each counts, too.
const OFFERED: f64 = 0.95 * LENGTH as f64 / (LENGTH + 28 + 68) as f64;
