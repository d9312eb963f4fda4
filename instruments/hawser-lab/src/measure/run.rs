//! The order of measurements in one run.

use std::io;
use std::path::Path;
use std::time::Duration;

use hawser_types::ByteCount;

use super::bench::{Bench, StepError, limit_for};
use super::hawser::{Meeting, Session};
use super::programs::Programs;
use super::report::RunReport;
use super::{BONDED, ContenderKind, Kind, Options, Table};
use crate::emulator::LinkBytes;
use crate::meter::{Congestion, Order, Outcome};
use crate::scenario::{Direction, Event, Scenario};
use crate::topology::Lab;

/// Measures a scenario, with logs and state in `folder`. Steps that fail are in the report; an
/// error means that there is no lab.
pub fn run(scenario: &Scenario, options: &Options, folder: &Path) -> anyhow::Result<RunReport> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let directions = if options.directions.is_empty() {
        scenario.directions.clone()
    } else {
        options.directions.clone()
    };
    let mut run = Run {
        scenario: scenario.clone(),
        options,
        bench: &bench,
        table: Table::new(),
        notes: Vec::new(),
        controls: available_controls(),
        sessions: 0,
    };
    if run.controls.len() < Congestion::ALL.len() {
        run.notes
            .push("this machine does not offer both cubic and bbr".to_owned());
    }
    for repetition in 1..=options.repeat {
        for &direction in &directions {
            run.scenario = options.sized(scenario, direction);
            run.repetition(repetition, direction);
        }
    }
    let (table, notes) = (run.table, run.notes);
    let counters = bench.lab().counters();
    Ok(RunReport::new(scenario, options, table, notes, counters))
}

struct Run<'a> {
    /// With the payload of the present direction.
    scenario: Scenario,
    options: &'a Options,
    bench: &'a Bench,
    table: Table,
    notes: Vec<String>,
    controls: Vec<Congestion>,
    sessions: u32,
}

impl Run<'_> {
    fn repetition(&mut self, repetition: u32, direction: Direction) {
        eprintln!(
            "{} {}, {} of {}",
            self.scenario.name,
            direction.name(),
            repetition,
            self.options.repeat
        );
        let wanted = |contender| self.options.contenders.contains(&contender);
        if wanted(ContenderKind::Tcp) {
            self.singles(direction);
        }
        if wanted(ContenderKind::Mptcp) {
            self.mptcp(direction);
        }
        if let Some(programs) = self.options.hawser.clone() {
            self.hawser(direction, &programs);
        }
    }

    /// Each link alone, all of them at the same time: they have nothing in common but the machine,
    /// which Hawser's transfers load as much.
    fn singles(&mut self, direction: Direction) {
        for congestion in self.controls.clone() {
            let kind = |link: usize, congestion| Kind::Tcp { link, congestion };
            let links: Vec<_> = (1..=self.scenario.links.len())
                .filter(|link| !self.is_hopeless(direction, congestion, |c| kind(*link, c)))
                .collect();
            let single = |link: usize| {
                let bytes = self.scenario.single_payload(link - 1, direction);
                let order = self.bench.tcp_order(link - 1, congestion, direction, bytes);
                let limit = self.limit(&kind(link, congestion), &order, &[]);
                // What happens to links is for those who use several.
                let mut outcome = self.bench.transfer(&order, limit, &[])?;
                // Without the bytes that others sent meanwhile over other links.
                for (index, bytes) in outcome.wire.iter_mut().enumerate() {
                    if index + 1 != link {
                        *bytes = LinkBytes::default();
                    }
                }
                Ok(outcome)
            };
            let results: Vec<_> = std::thread::scope(|scope| {
                let spawn = |link: &usize| {
                    let link = *link;
                    scope.spawn(move || single(link))
                };
                let threads: Vec<_> = links.iter().map(spawn).collect();
                threads.into_iter().map(|thread| thread.join()).collect()
            });
            for (link, result) in links.into_iter().zip(results) {
                let broken = || StepError::Program(io::Error::other("the thread failed"));
                let result = result.unwrap_or_else(|_| Err(broken()));
                self.note(kind(link, congestion), direction, result);
            }
        }
    }

    /// Returns whether the other congestion control is so much better that this one's median cannot
    /// be the one that counts; when quick, whether it is better at all so far. Only the first
    /// repetition is measured then: with loss it takes minutes.
    fn is_hopeless(
        &mut self,
        direction: Direction,
        congestion: Congestion,
        kind: impl Fn(Congestion) -> Kind,
    ) -> bool {
        let median = |control| self.table.get(&(direction, kind(control)))?.median();
        let others = self.controls.iter().filter(|other| **other != congestion);
        let best = others.filter_map(|other| median(*other)).reduce(f64::max);
        let hopeless = median(congestion).zip(best).is_some_and(|(own, best)| {
            own < best * if self.options.quick { 1.0 } else { HOPELESS }
        });
        if hopeless {
            let note = format!(
                "{} {}: not measured each time, the other congestion control was ahead",
                direction.name(),
                kind(congestion)
            );
            self.note_once(note);
        }
        hopeless
    }

    fn note_once(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn mptcp(&mut self, direction: Direction) {
        if !self.bench.lab().speaks_mptcp() {
            let note = "MPTCP is not measured: not in this kernel, or two links with one address";
            self.note_once(note.to_owned());
            return;
        }
        for congestion in self.controls.clone() {
            if self.is_hopeless(direction, congestion, |congestion| Kind::Mptcp {
                congestion,
            }) {
                continue;
            }
            let order = self
                .bench
                .mptcp_order(congestion, direction, self.scenario.payload);
            let events = self.scenario.events.clone();
            self.step(Kind::Mptcp { congestion }, direction, &order, &events);
        }
    }

    fn hawser(&mut self, direction: Direction, programs: &Programs) {
        self.sessions += 1;
        let started = match self.options.meeting {
            Meeting::Enrolled => Session::start(self.bench, programs, self.sessions),
            unmet @ (Meeting::Discovered | Meeting::DiscoveredByCapture) => {
                Session::start_unmet(self.bench, programs, self.sessions, unmet)
            }
        };
        let mut session = match started {
            Ok(session) => session,
            Err(error) => return self.fail(Kind::HawserFirst, direction, &error),
        };
        let bytes = self.scenario.payload;
        let order = match self.options.meeting {
            Meeting::DiscoveredByCapture => self.bench.plain_order(direction, bytes),
            Meeting::Enrolled | Meeting::Discovered => {
                self.bench.socks_order(session.socks(), direction, bytes)
            }
        };
        let events = self.scenario.events.clone();
        let warm = std::iter::repeat_n(Kind::HawserWarm, self.options.warm as usize);
        let is_discovered = self.options.meeting.is_by_discovery();
        for kind in std::iter::once(Kind::HawserFirst).chain(warm) {
            if is_discovered
                && kind == Kind::HawserWarm
                && let Err(error) = session.until_met(self.bench, programs)
            {
                return self.fail(kind, direction, &error);
            }
            let fronted = is_discovered.then(|| session.fronted(programs));
            self.step(kind.clone(), direction, &order, &events);
            let mut counters = session.counters(programs);
            if let Some(before) = fronted {
                let bonded = session.fronted(programs).saturating_sub(before);
                counters.insert(BONDED.to_owned(), bonded);
            }
            let samples = self.table.get_mut(&(direction, kind));
            if let Some(outcome) = samples.and_then(|samples| samples.outcomes.last_mut())
                && outcome.hawser.is_empty()
            {
                outcome.hawser = counters;
            }
        }
        if let Err(error) = session.check_alive() {
            self.fail(Kind::HawserWarm, direction, &error.into());
        }
    }

    fn step(&mut self, kind: Kind, direction: Direction, order: &Order, events: &[Event]) {
        let limit = self.limit(&kind, order, events);
        let result = self.bench.transfer(order, limit, events);
        self.note(kind, direction, result);
    }

    fn limit(&self, kind: &Kind, order: &Order, events: &[Event]) -> Duration {
        let rate = match kind {
            Kind::Tcp { link, .. } => self.scenario.links[link - 1].line(order.direction).rate,
            _ => self.scenario.total_rate(order.direction),
        };
        let lossy = self.scenario.links.iter().any(|link| {
            let line = link.line(order.direction);
            line.loss.mean >= MUCH_LOSS
        });
        limit_for(ByteCount::new(order.bytes), rate, events, lossy)
    }

    fn note(&mut self, kind: Kind, direction: Direction, result: Result<Outcome, StepError>) {
        match result {
            Ok(outcome) => self.note_outcome(kind, direction, outcome),
            Err(error) => self.fail(kind, direction, &error),
        }
    }

    fn note_outcome(&mut self, kind: Kind, direction: Direction, outcome: Outcome) {
        eprintln!(
            "  {:<16} {kind:<20} {:>9.3} Mbit/s in {:>6.2} s, worst gap {:>5.0} ms",
            self.scenario.name,
            outcome.mbps,
            outcome.seconds,
            outcome.worst_gap * 1e3
        );
        self.table
            .entry((direction, kind))
            .or_default()
            .outcomes
            .push(outcome);
    }

    fn fail(&mut self, kind: Kind, direction: Direction, error: &StepError) {
        let name = &self.scenario.name;
        eprintln!("  {name:<16} {kind:<20} FAILED: {error}");
        self.table
            .entry((direction, kind))
            .or_default()
            .failures
            .push(error.to_string());
    }
}

/// The congestion controls among those measured that the machine has.
pub(crate) fn available_controls() -> Vec<Congestion> {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let offered = list.unwrap_or_default();
    let offers = |c: &Congestion| offered.split_whitespace().any(|name| name == c.name());
    let found: Vec<_> = Congestion::ALL.into_iter().filter(offers).collect();
    // Without a list the transfers themselves will say what is missing.
    if found.is_empty() {
        Congestion::ALL.to_vec()
    } else {
        found
    }
}

/// Less than this part of the better congestion control's goodput is no contender.
const HOPELESS: f64 = 0.5;
/// With so much of it a congestion control that backs off may take many times its ideal time.
const MUCH_LOSS: f64 = 0.05;
