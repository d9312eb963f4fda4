//! New connections: how long until an application may send, and until its first byte of answer?

mod report;
mod table;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hawser_types::ByteCount;

use self::report::{ConnectReport, Kind, Phase};
use crate::experiment::{Findings, Head, named};
use crate::measure::{Bench, Programs, Session, StepError, quickest_link};
use crate::meter::{self, Congestion, FirstAnswer, Order};
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    pub(crate) scenario: PathBuf,
    /// Number of connections of each kind
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
}

/// Measures each kind, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<ConnectReport> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let (best, base_rtt) = quickest_link(scenario);
    let mut measured = Measured {
        options,
        programs,
        bench: &bench,
        best,
        phases: Vec::new(),
    };
    measured.all();
    Ok(ConnectReport {
        head: Head::new("connect", &scenario.name),
        repeat: options.repeat,
        best_link: best + 1,
        base_rtt_seconds: base_rtt.as_secs_f64(),
        phases: measured.phases,
    })
}

impl Findings for ConnectReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let of = |phase: &Phase| named(phase.kind.name(), &phase.failures);
        self.phases.iter().flat_map(of).collect()
    }
}

struct Measured<'a> {
    options: &'a Options,
    programs: &'a Programs,
    bench: &'a Bench,
    best: usize,
    phases: Vec<Phase>,
}

impl Measured<'_> {
    fn all(&mut self) {
        let repeat = self.options.repeat;
        let mut phases = [Kind::Tcp, Kind::Fresh, Kind::Warm].map(Phase::new);
        let [tcp, fresh, warm] = &mut phases;
        for _ in 0..repeat {
            tcp.note(self.over_tcp());
        }
        // Hawser's own enrolment is no part of a connection.
        match Session::start(self.bench, self.programs, 1) {
            Err(error) => fresh.failures.push(error.to_string()),
            Ok(mut session) => {
                for _ in 0..repeat {
                    fresh.note(self.through_fresh(&mut session));
                    // Until the session has all its channels.
                    std::thread::sleep(SETTLING);
                    warm.note(self.through(&session));
                }
            }
        }
        self.phases.extend(phases);
        let mut restarted = Phase::new(Kind::GatewayRestarted);
        match Session::start(self.bench, self.programs, 2) {
            Err(error) => restarted.failures.push(error.to_string()),
            Ok(mut session) => {
                for _ in 0..repeat.min(MAX_RESTARTS) {
                    let result = self.after_restart(&mut session);
                    restarted.refused += result.as_ref().map_or(0, |(_, refused)| *refused);
                    restarted.note(result.map(|(answer, _)| answer));
                }
            }
        }
        self.phases.push(restarted);
        for phase in &mut self.phases {
            phase.sum_up();
        }
    }

    fn over_tcp(&self) -> Result<FirstAnswer, StepError> {
        let bytes = ByteCount::new(BLOCK);
        let control = Congestion::Cubic;
        let order = self
            .bench
            .tcp_order(self.best, control, Direction::Put, bytes);
        self.first_answer(&order)
    }

    fn through(&self, session: &Session) -> Result<FirstAnswer, StepError> {
        self.first_answer(&self.order(session))
    }

    /// Starts the client anew, and connects in the moment in which its port opens.
    fn through_fresh(&self, session: &mut Session) -> Result<FirstAnswer, StepError> {
        session.restart_client(self.bench, self.programs)?;
        let order = self.order(session);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.first_answer(&order) {
                Err(StepError::Program(error))
                    if error.kind() == io::ErrorKind::ConnectionRefused
                        && Instant::now() < deadline =>
                {
                    session.check_alive()?;
                    std::thread::sleep(POLL);
                }
                result => return result,
            }
        }
    }

    /// Kills the gateway under a session, starts it again, and connects as soon as it listens,
    /// until a connection is not refused; gives how many were.
    fn after_restart(&self, session: &mut Session) -> Result<(FirstAnswer, u32), StepError> {
        self.through(session)?;
        session.restart_gateway(self.bench, self.programs)?;
        let start = Instant::now();
        let mut refused = 0;
        loop {
            let waited = start.elapsed();
            match self.through(session) {
                Ok(answer) => {
                    let answer = FirstAnswer {
                        connected: waited + answer.connected,
                        answered: waited + answer.answered,
                    };
                    return Ok((answer, refused));
                }
                Err(error) if waited > PATIENCE => return Err(error),
                Err(_) => {
                    refused += 1;
                    std::thread::sleep(RETRY);
                }
            }
        }
    }

    fn order(&self, session: &Session) -> Order {
        let bytes = ByteCount::new(BLOCK);
        let order = self
            .bench
            .socks_order(session.socks(), Direction::Put, bytes);
        Order {
            patience: PATIENCE,
            ..order
        }
    }

    fn first_answer(&self, order: &Order) -> Result<FirstAnswer, StepError> {
        let client = self.bench.lab().client();
        Ok(client.run(|| meter::first_answer(order))?)
    }
}

/// Bytes that are sent, and sent back.
const BLOCK: u64 = 100;
/// A restart of the gateway may cost a client some seconds of its own pauses.
const MAX_RESTARTS: u32 = 5;
const SETTLING: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(60);
/// Between attempts of an application that was refused.
const RETRY: Duration = Duration::from_millis(20);
/// Time between two attempts to find an opened port.
const POLL: Duration = Duration::from_micros(200);
