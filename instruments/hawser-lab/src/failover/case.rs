//! One failure of one link, under load or idle.

use std::time::Duration;

use hawser_types::ByteCount;

use super::options::{Load, Trouble};
use super::report::Sample;
use crate::contender::{Contender, Equipment};
use crate::measure::{StepError, recovery};
use crate::meter::{self, Order};
use crate::scenario::{Direction, Event, Scenario, promise};

/// The case to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) part: Duration,
    pub(super) equipment: Equipment<'a>,
    pub(super) contender: Contender,
    pub(super) trouble: Trouble,
    pub(super) load: Load,
}

impl Subject<'_> {
    /// Lets link `index`, from 0, fail once.
    pub(super) fn run(&self, index: usize) -> Result<Sample, StepError> {
        let sample = match self.load {
            Load::Put => self.under_load(index, Direction::Put),
            Load::Get => self.under_load(index, Direction::Get),
            Load::Idle => self.at_rest(index),
        };
        // The session that lives on is on all links again; MPTCP's connections are new each time.
        if self.contender == Contender::Hawser {
            std::thread::sleep(self.part);
        }
        sample
    }

    fn under_load(&self, index: usize, direction: Direction) -> Result<Sample, StepError> {
        let events = self.events(index);
        // Enough for three parts, one of which goes without the link.
        let whole = self.scenario.total_rate(direction) * (self.part * 3);
        let bytes = whole - self.scenario.links[index].line(direction).rate * self.part;
        let order = self.equipment.order(self.contender, direction, bytes);
        let limit = self.part * LIMIT + PATIENCE;
        let outcome = self.equipment.bench.transfer(&order, limit, &events)?;
        let before = recovery::before(&outcome, self.part);
        let back = events.last().map_or(Duration::ZERO, |event| event.at);
        let full = before.and_then(|rate| recovery::until(&outcome, back, rate * FULL));
        Ok(Sample {
            link: index + 1,
            gap_seconds: outcome.worst_gap,
            allowed_seconds: self.allowed(index),
            full_rate_after: full,
            outcome: Some(outcome),
        })
    }

    /// The trouble and its end, in the parts of a transfer.
    fn events(&self, link: usize) -> Vec<Event> {
        let event = |at, action| Event { at, link, action };
        let begin = event(self.part, self.trouble.begin());
        let end = self.trouble.end();
        let end = end.map(|action| event(self.part * 2, action));
        std::iter::once(begin).chain(end).collect()
    }

    fn at_rest(&self, index: usize) -> Result<Sample, StepError> {
        let lab = self.equipment.bench.lab();
        let bytes = ByteCount::new(REQUEST.len() as u64);
        let order = Order {
            patience: PATIENCE,
            ..self.equipment.order(self.contender, Direction::Put, bytes)
        };
        let mut stream = lab.client().run(|| meter::open_echo(&order))?;
        meter::ask(&mut stream, REQUEST)?;
        std::thread::sleep(self.part);
        lab.apply(index, self.trouble.begin())?;
        std::thread::sleep(UNNOTICED);
        let answered = meter::ask(&mut stream, REQUEST);
        if let Some(action) = self.trouble.end() {
            lab.apply(index, action)?;
        }
        Ok(Sample {
            link: index + 1,
            gap_seconds: answered?.as_secs_f64(),
            allowed_seconds: self.allowed(index),
            full_rate_after: None,
            outcome: None,
        })
    }

    fn allowed(&self, failed: usize) -> f64 {
        promise::longest_gap(&self.scenario.links, failed).as_secs_f64()
    }
}

const REQUEST: &[u8] = &[b'?'; 100];
/// Time from the failure of an idle link to the request: only the kernel has noticed it by then.
const UNNOTICED: Duration = Duration::from_millis(500);
/// Full rate: this part of what the receiver had before.
const FULL: f64 = promise::OF_FULL_RATE as f64 / 1e3;
/// A transfer may take so many parts, and the patience.
const LIMIT: u32 = 10;
const PATIENCE: Duration = Duration::from_secs(30);
