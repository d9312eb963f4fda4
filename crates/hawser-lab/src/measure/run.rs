//! The order of measurements in one run.

use std::path::Path;
use std::time::Duration;

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
            if measured_instead(self.scenario, index, direction) != index {
                continue;
            }
            for congestion in self.controls.clone() {
                let kind = |congestion| Kind::Tcp {
                    link: index + 1,
                    congestion,
                };
                if self.is_hopeless(direction, congestion, kind) {
                    continue;
                }
                let bytes = self.scenario.single_payload(index, direction);
                let order = self.bench.tcp_order(index, congestion, direction, bytes);
                // What happens to links is for those who use several.
                self.step(kind(congestion), direction, &order, &[]);
            }
        }
    }

    /// Whether the other congestion control is so much better that this one's median cannot be the
    /// one that counts. Only the first repetition is measured then: with loss it takes minutes.
    fn is_hopeless(
        &mut self,
        direction: Direction,
        congestion: Congestion,
        kind: impl Fn(Congestion) -> Kind,
    ) -> bool {
        let median = |control| self.table.get(&(direction, kind(control)))?.median();
        let others = self.controls.iter().filter(|other| **other != congestion);
        let best = others.filter_map(|other| median(*other)).reduce(f64::max);
        let hopeless = median(congestion)
            .zip(best)
            .is_some_and(|(own, best)| own < HOPELESS * best);
        if hopeless {
            let note = format!(
                "{} {}: measured once, the other congestion control is far ahead",
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
        let mut session = match Session::start(self.bench, programs, self.sessions) {
            Ok(session) => session,
            Err(error) => return self.fail(Kind::HawserFirst, direction, &error),
        };
        let order = self
            .bench
            .socks_order(session.socks(), direction, self.scenario.payload);
        let events = self.scenario.events.clone();
        let warm = std::iter::repeat_n(Kind::HawserWarm, self.options.warm as usize);
        for kind in std::iter::once(Kind::HawserFirst).chain(warm) {
            self.step(kind.clone(), direction, &order, &events);
            let counters = session.counters(programs);
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
        let rate = match kind {
            Kind::Tcp { link, .. } => self.scenario.links[link - 1].line(direction).rate,
            _ => self.scenario.total_rate(direction),
        };
        let lossy = self.scenario.links.iter().any(|link| {
            let line = link.line(direction);
            line.loss >= MUCH_LOSS
        });
        let limit = limit_for(ByteCount::new(order.bytes), rate, events, lossy);
        match self.bench.transfer(order, limit, events) {
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

/// The link that is measured alone for link `index` in this direction, both from 0: the first of
/// those that are the same, where that would take long; else the link itself.
pub(super) fn measured_instead(scenario: &Scenario, index: usize, direction: Direction) -> usize {
    let links = &scenario.links;
    let Some(own) = links.get(index) else {
        return index;
    };
    let bytes = scenario.single_payload(index, direction);
    let takes = own.line(direction).rate.time_for(bytes);
    if takes.is_some_and(|takes| takes < LONG) {
        return index;
    }
    let first = links.iter().position(|other| other == own);
    first.unwrap_or(index)
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
/// A transfer over one link that takes longer is not made for each of several equal links.
const LONG: Duration = Duration::from_secs(20);
/// With so much of it a congestion control that backs off may take many times its ideal time.
const MUCH_LOSS: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::no_files;

    fn scenario(rate: &str) -> Scenario {
        let link = |delay: &str| format!("[[link]]\nrate = \"{rate}\"\ndelay = \"{delay}\"\n");
        let links = [link("5ms"), link("9ms"), link("5ms")].concat();
        let text = format!("payload = \"1MB\"\n{links}");
        Scenario::parse("test", &text, &no_files).unwrap()
    }

    #[test]
    fn equal_links_are_measured_once_where_that_takes_long() {
        let slow = scenario("60kbit/s");
        let of = |index| measured_instead(&slow, index, Direction::Put);
        assert_eq!([of(0), of(1), of(2)], [0, 1, 0]);
    }

    #[test]
    fn quick_links_are_measured_each() {
        let quick = scenario("50Mbit/s");
        let of = |index| measured_instead(&quick, index, Direction::Get);
        assert_eq!([of(0), of(1), of(2)], [0, 1, 2]);
    }
}
