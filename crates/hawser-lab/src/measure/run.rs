//! The order of measurements in one run.

use std::path::Path;

use hawser_types::ByteCount;

use super::bench::{Bench, StepError, limit_for};
use super::hawser::{Programs, Session};
use super::report::{Machine, Report};
use super::{Contender, Kind, Options, Table};
use crate::interrupt::TemporaryFolder;
use crate::meter::{Congestion, Order, Outcome};
use crate::scenario::{Direction, Event, Scenario};
use crate::topology::Lab;

/// Measures a scenario. Steps that fail are in the report; an error means that there is no lab.
pub fn run(scenario: &Scenario, options: &Options) -> anyhow::Result<Report> {
    let temporary;
    let folder: &Path = if let Some(logs) = &options.logs {
        std::fs::create_dir_all(logs)?;
        logs
    } else {
        temporary = TemporaryFolder::create()?;
        temporary.path()
    };
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let directions = if options.directions.is_empty() {
        scenario.directions.clone()
    } else {
        options.directions.clone()
    };
    let mut run = Run {
        scenario,
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
            run.repetition(repetition, direction);
        }
    }
    let (table, notes) = (run.table, run.notes);
    Ok(Report::new(
        scenario,
        options,
        Machine::of_this(),
        table,
        notes,
        bench.lab().counters(),
    ))
}

struct Run<'a> {
    scenario: &'a Scenario,
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
        if wanted(Contender::Tcp) {
            self.singles(direction);
        }
        if wanted(Contender::Mptcp) {
            self.mptcp(direction);
        }
        if let Some(programs) = self.options.hawser.clone() {
            self.hawser(direction, &programs);
        }
    }

    fn singles(&mut self, direction: Direction) {
        for index in 0..self.bench.lab().links().len() {
            for congestion in self.controls.clone() {
                let bytes = self.scenario.single_payload(index, direction);
                let order = self.bench.tcp_order(index, congestion, direction, bytes);
                let kind = Kind::Tcp {
                    link: index + 1,
                    congestion,
                };
                // What happens to links is for those who use several.
                self.step(kind, direction, &order, &[]);
            }
        }
    }

    fn mptcp(&mut self, direction: Direction) {
        if !self.bench.lab().speaks_mptcp() {
            let note = "MPTCP is not measured: not in this kernel, or two links with one address";
            if !self.notes.iter().any(|known| known == note) {
                self.notes.push(note.to_owned());
            }
            return;
        }
        for congestion in self.controls.clone() {
            let order = self
                .bench
                .mptcp_order(congestion, direction, self.scenario.payload);
            let events = self.scenario.events.clone();
            self.step(Kind::Mptcp { congestion }, direction, &order, &events);
        }
    }

    fn hawser(&mut self, direction: Direction, programs: &Programs) {
        self.sessions += 1;
        let mut session = match Session::start(self.bench, programs, self.sessions) {
            Ok(session) => session,
            Err(error) => return self.fail(Kind::HawserFirst, direction, &error),
        };
        let order = self
            .bench
            .socks_order(session.socks(), direction, self.scenario.payload);
        let events = self.scenario.events.clone();
        self.step(Kind::HawserFirst, direction, &order, &events);
        for _ in 0..self.options.warm {
            self.step(Kind::HawserWarm, direction, &order, &events);
        }
        if let Err(error) = session.check_alive() {
            self.fail(Kind::HawserWarm, direction, &error.into());
        }
    }

    fn step(&mut self, kind: Kind, direction: Direction, order: &Order, events: &[Event]) {
        let rate = match kind {
            Kind::Tcp { link, .. } => self.scenario.links[link - 1].line(direction).rate,
            _ => self.scenario.total_rate(direction),
        };
        let limit = limit_for(ByteCount::new(order.bytes), rate, events);
        match self.bench.transfer(order, limit, events) {
            Ok(outcome) => self.note_outcome(kind, direction, outcome),
            Err(error) => self.fail(kind, direction, &error),
        }
    }

    fn note_outcome(&mut self, kind: Kind, direction: Direction, outcome: Outcome) {
        eprintln!(
            "  {kind:<20} {:>9.3} Mbit/s in {:>6.2} s, worst gap {:>5.0} ms",
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
        eprintln!("  {kind:<20} FAILED: {error}");
        self.table
            .entry((direction, kind))
            .or_default()
            .failures
            .push(error.to_string());
    }
}

/// Those of the two congestion controls that this kernel offers.
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
