//! One cell, run in a lab of its own.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser_types::ByteCount;

use super::expected::{Cell, Connection, Load};
use super::fault::Fault;
use super::report::Found;
use crate::measure::{Bench, Programs, Session, StepError, recovery};
use crate::meter::{self, Order};
use crate::scenario::{Action, Direction, Scenario};
use crate::topology::Lab;

/// A cell with all that it takes to run it.
pub(super) struct Case<'a> {
    cell: &'a Cell,
    scenario: Scenario,
    programs: Programs,
    place: PathBuf,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        cell: &'a Cell,
        scenario: &Scenario,
        programs: &Programs,
        folder: &Path,
    ) -> Self {
        let mut scenario = scenario.clone();
        cell.fault.prepare(&mut scenario);
        Self {
            cell,
            scenario,
            programs: programs.clone().with_transport(Some(cell.transport)),
            place: folder.join(cell.name().replace('/', "-")),
        }
    }

    pub(super) fn run(&self) -> Found {
        let mut found = Found::new(self.cell);
        if let Err(error) = self.measure(&mut found) {
            found.problems.push(error.to_string());
        }
        found
    }

    fn measure(&self, found: &mut Found) -> Result<(), StepError> {
        std::fs::create_dir_all(&self.place)?;
        let lab = Lab::shaped(&self.scenario)?;
        self.cell.fault.before(&lab);
        let bench = Bench::new(lab, &self.place)?;
        let mut session = Session::start(&bench, &self.programs, 1)?;
        if !self.cell.fault.begins().is_zero() {
            std::thread::sleep(SETTLE);
        }
        match self.cell.load {
            Load::Put => self.under_load(Direction::Put, &bench, &mut session, found)?,
            Load::Get => self.under_load(Direction::Get, &bench, &mut session, found)?,
            Load::Rest => self.at_rest(&bench, &mut session, found)?,
        }
        self.read_log(found)?;
        for direction in [Direction::Put, Direction::Get] {
            let order = bench.socks_order(session.socks(), direction, AFTERWARDS);
            bench.transfer(&order, AFTERWARDS_LIMIT, &[])?;
        }
        session.check_alive()?;
        bench.check_emulator()
    }

    fn under_load(
        &self,
        direction: Direction,
        bench: &Bench,
        session: &mut Session,
        found: &mut Found,
    ) -> Result<(), StepError> {
        let fault = self.cell.fault;
        let order = bench.socks_order(session.socks(), direction, self.payload(direction));
        let slow = if self.cell.expected.sound == 0 {
            SLOW
        } else {
            Duration::ZERO
        };
        let limit = fault.begins() + fault.lasts() * 4 + PATIENCE + slow;
        let is_over = AtomicBool::new(false);
        let (outcome, answered) = std::thread::scope(|scope| {
            let transfer = scope.spawn(|| {
                let outcome = bench.transfer(&order, limit, &[]);
                is_over.store(true, Ordering::Relaxed);
                outcome
            });
            std::thread::sleep(fault.begins());
            fault.happen(bench.lab(), || is_over.load(Ordering::Relaxed))?;
            let answered = match fault {
                Fault::GatewayKilled => {
                    session.restart_gateway(bench, &self.programs)?;
                    Some(first_answer(bench, session)?)
                }
                _ => None,
            };
            let outcome = transfer.join();
            let outcome = outcome.unwrap_or_else(|_| Err(io::Error::other("it panicked").into()));
            Ok::<_, StepError>((outcome, answered))
        })?;
        match (outcome, answered) {
            (Ok(outcome), _) => {
                found.connection = Some(Connection::Kept);
                let begin = recovery::bin(&outcome, fault.begins());
                let after = outcome.timeline.get(begin..).unwrap_or_default();
                let silent = after.split(|bytes| *bytes > 0).map(<[u64]>::len);
                let longest = silent.max().unwrap_or(0) as f64;
                found.gap_seconds = Some(longest * meter::BIN.as_secs_f64());
                // Until the first half second with half of what the sound links carry.
                let rate = self.sound_rate(direction, self.cell.expected.sound);
                let enough = rate.bytes_per_second() as f64 * TCP_SHARE * HALF;
                found.recovery_seconds = recovery::until(&outcome, fault.begins(), enough);
                found.outcome = Some(outcome);
            }
            (Err(StepError::Program(error)), answered) => self.lost(found, answered, &error),
            // The meter's client saw the end of a download: as good as an error.
            (Err(error @ StepError::Corrupted), Some(answered)) => {
                self.lost(found, Some(answered), &error);
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }

    fn lost(&self, found: &mut Found, answered: Option<Duration>, error: &dyn std::error::Error) {
        found.connection = Some(Connection::Lost);
        found.error = Some(error.to_string());
        found.recovery_seconds = answered.map(|time| time.as_secs_f64());
    }

    /// What both links carry until the fault, and the sound ones after it.
    fn payload(&self, direction: Direction) -> ByteCount {
        let fault = self.cell.fault;
        let after = match self.cell.expected.sound {
            0 => ByteCount::from_kib(256),
            sound => self.sound_rate(direction, sound) * fault.lasts(),
        };
        self.scenario.total_rate(direction) * fault.begins() + after
    }

    fn sound_rate(&self, direction: Direction, sound: u32) -> hawser_types::Rate {
        let links = self.scenario.links.iter().take(sound as usize);
        links.map(|link| link.line(direction).rate).sum()
    }

    fn at_rest(
        &self,
        bench: &Bench,
        session: &mut Session,
        found: &mut Found,
    ) -> Result<(), StepError> {
        let order = Order {
            patience: PATIENCE,
            ..bench.socks_order(
                session.socks(),
                Direction::Put,
                ByteCount::new(REQUEST.len() as u64),
            )
        };
        let lab = bench.lab();
        let mut stream = lab.client().run(|| meter::open_echo(&order))?;
        meter::ask(&mut stream, REQUEST)?;
        std::thread::sleep(self.cell.fault.begins());
        self.pass_time(bench, session)?;
        let asking = Instant::now();
        let is_lost = self.cell.expected.connection == Connection::Lost;
        let session = &*session;
        let (asked, answered) = std::thread::scope(|scope| {
            let answered = is_lost.then(|| scope.spawn(|| first_answer(bench, session)));
            let asked = meter::ask(&mut stream, REQUEST);
            found.ended_seconds = asked.is_err().then(|| asking.elapsed().as_secs_f64());
            (asked, answered.and_then(|thread| thread.join().ok()))
        });
        match (asked, answered.transpose()?) {
            (Ok(time), _) => {
                found.connection = Some(Connection::Kept);
                found.recovery_seconds = Some(time.as_secs_f64());
            }
            (Err(error), answered) => self.lost(found, answered, &error),
        }
        Ok(())
    }

    /// The fault, from its beginning to its end.
    fn pass_time(&self, bench: &Bench, session: &mut Session) -> Result<(), StepError> {
        let fault = self.cell.fault;
        let [client, _] = session.ids();
        if fault == Fault::Suspend {
            signal(client, libc::SIGSTOP);
        }
        fault.happen(bench.lab(), || false)?;
        if fault == Fault::GatewayKilled {
            return session.restart_gateway(bench, &self.programs);
        }
        std::thread::sleep(fault.lasts());
        if fault == Fault::Suspend {
            bench.lab().apply(0, Action::Pass)?;
            bench.lab().apply(1, Action::Pass)?;
            signal(client, libc::SIGCONT);
        }
        Ok(())
    }

    fn read_log(&self, found: &mut Found) -> io::Result<()> {
        let Some(says) = &self.cell.expected.says else {
            return Ok(());
        };
        let log = std::fs::read_to_string(self.place.join("session-1/client.log"))?;
        let lines = log.lines().filter(|line| line.contains(says));
        found.said = lines.map(str::to_owned).collect();
        Ok(())
    }
}

/// Time until a new connection is answered.
fn first_answer(bench: &Bench, session: &Session) -> io::Result<Duration> {
    let begun = Instant::now();
    let bytes = ByteCount::new(REQUEST.len() as u64);
    let order = Order {
        patience: PATIENCE,
        ..bench.socks_order(session.socks(), Direction::Put, bytes)
    };
    loop {
        match bench.lab().client().run(|| meter::first_answer(&order)) {
            Ok(_) => return Ok(begun.elapsed()),
            Err(error) if begun.elapsed() >= PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(AGAIN),
        }
    }
}

fn signal(id: u32, signal: libc::c_int) {
    if let Ok(id) = libc::pid_t::try_from(id)
        && id > 1
    {
        // SAFETY: a plain system call, on a child that is not yet waited for.
        unsafe {
            libc::kill(id, signal);
        }
    }
}

const REQUEST: &[u8] = &[b'?'; 100];
/// Channels and association are there by then.
const SETTLE: Duration = Duration::from_secs(2);
/// Beyond the times that are expected, by far.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is left where no path is sound takes its time.
const SLOW: Duration = Duration::from_secs(300);
const AGAIN: Duration = Duration::from_millis(20);
/// The transfer, each way, that shows that the session still serves.
const AFTERWARDS: ByteCount = ByteCount::new(100_000);
const AFTERWARDS_LIMIT: Duration = Duration::from_secs(30);
/// Payload of a full packet.
const TCP_SHARE: f64 = 1448.0 / 1500.0;
const HALF: f64 = 0.5;
