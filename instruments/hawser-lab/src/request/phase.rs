//! The requests of one phase, in a lab of its own.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use hawser_types::ByteCount;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use super::options::Options;
use super::report::Run;
use crate::contender::{Contender, Equipment};
use crate::measure::{Bench, Programs, Session, StepError};
use crate::meter::{self, Order};
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// One phase to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) programs: &'a Programs,
    pub(super) contender: Contender,
    pub(super) bulk: Option<Direction>,
    /// The link that plain TCP uses.
    pub(super) better: usize,
}

impl Subject<'_> {
    /// Goes through the phase once, in a lab of its own in `place`, with a seed by `number`.
    pub(super) fn run(&self, place: &Path, number: u32) -> Run {
        let scenario = Scenario {
            seed: self.scenario.seed.wrapping_add(number.into()),
            ..self.scenario.clone()
        };
        let mut run = Run {
            seed: scenario.seed,
            ..Run::default()
        };
        let measured = self.measure(&scenario, place, &mut run);
        run.failure = measured.err().map(|error| error.to_string());
        run
    }

    /// Measures one phase. Results from before a failure are kept.
    fn measure(&self, scenario: &Scenario, place: &Path, run: &mut Run) -> Result<(), StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(scenario)?, place)?;
        let mut session = self.contender.session(&bench, self.programs)?;
        let limit = LIMIT_EACH * self.options.count + SETTLING;
        let order = Order {
            patience: PATIENCE,
            ..self.order(&bench, session.as_ref(), Direction::Put, self.size())
        };
        let mut stream = bench.lab().client().run(|| meter::open_echo(&order))?;
        let mut requests = Requests::new(self.options, scenario.seed, limit);
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
        let answered = requests.run(&mut stream, &mut run.samples);
        let seconds = start.elapsed().as_secs_f64();
        let passed = self.traffic(&bench)?.into_iter().zip(before);
        run.link_mbps = passed
            .map(|(after, before)| after.saturating_sub(before) as f64 * 8e-6 / seconds)
            .collect();
        run.emulator = Some(bench.lab().counters());
        // An end of a program says more than the time-out that comes of it.
        if let Some(bulk) = &mut bulk {
            bulk.check_alive()?;
        }
        if let Some(session) = &mut session {
            run.hawser = session.counters(self.programs);
            session.check_alive()?;
        }
        answered?;
        bench.check_emulator()
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
        let equipment = Equipment {
            bench,
            session,
            link: self.better,
        };
        equipment.order(self.contender, direction, bytes)
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
    fn new(options: &Options, seed: u64, limit: Duration) -> Self {
        let size = options.size as usize;
        Self {
            random: SmallRng::seed_from_u64(seed),
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

/// Returns the kernel's counters of an interface, from the text of `/proc/net/dev`.
fn interface_bytes(text: &str, interface: &str, direction: Direction) -> Option<u64> {
    let field = match direction {
        Direction::Get => RECEIVED_FIELD,
        Direction::Put => SENT_FIELD,
    };
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, fields) = lines.find(|(name, _)| name.trim() == interface)?;
    fields.split_whitespace().nth(field)?.parse().ok()
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// One answer that takes longer ends the phase.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest time for all requests together, for each of them.
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
