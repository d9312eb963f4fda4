//! Links that fail and return: the reader's wait, the time until all links carry data again, and
//! the retransmitted bytes.

use std::time::Duration;

use hawser_scenario::promise::{self, FULL_RATE};
use hawser_scenario::{Action, Direction, Event, Scenario};
use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use crate::arrivals::Arrivals;
use crate::bond::Bond;
use crate::bulk::{self, Bulk, Outcome};
use crate::experiment::{self, Options};

/// What happens to the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// Nothing, for comparison: links with turns and holes have gaps of their own.
    None,
    /// Every packet vanishes for four seconds, under load.
    BlackHole,
    /// The carrier is gone for four seconds, under load; the client is told.
    Carrier,
    /// The client's address is replaced, under load.
    Address,
    /// Every packet vanishes while nothing flows, and a request comes some time later.
    Idle,
}

impl Failure {
    /// All, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::BlackHole,
        Self::Carrier,
        Self::Address,
        Self::Idle,
    ];

    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BlackHole => "black-hole",
            Self::Carrier => "carrier",
            Self::Address => "address",
            Self::Idle => "idle",
        }
    }

    /// What happens to `link`, and when it can carry again.
    fn events(self, link: usize) -> (Vec<Event>, Duration) {
        let event = |at, action| Event { at, link, action };
        let both = |gone, back| (vec![event(FAILS, gone), event(RETURNS, back)], RETURNS);
        match self {
            Self::None | Self::Idle => (Vec::new(), RETURNS),
            Self::BlackHole => both(Action::BlackHole, Action::Pass),
            Self::Carrier => both(Action::CarrierDown, Action::CarrierUp),
            Self::Address => (vec![event(FAILS, Action::AddressChange)], FAILS),
        }
    }
}

/// One failure of one link. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailoverReport {
    /// The scenario's name; what happens in it is left out.
    pub scenario: String,
    /// Which way the payload went.
    pub direction: Direction,
    /// The link that failed, from 1.
    pub link: usize,
    /// What happened to it.
    pub failure: Failure,
    /// The longest time without anything new at the reader from the failure on. Idle: the longest
    /// of ten requests, from the request to its answer; `None`: one had none for a minute.
    pub gap: Option<u64>,
    /// What it may be: [`promise::longest_gap`].
    pub allowed: u64,
    /// Under load, what came afterwards; `None` for an idle session.
    pub load: Option<Load>,
}

/// What a bulk transfer came to around the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Load {
    /// The full rate: goodput in the two seconds before the failure, in kbit/s.
    pub full: u64,
    /// Goodput in the last two seconds without the link, in kbit/s; nothing where it comes back at
    /// once.
    pub without: Option<u64>,
    /// How long after the link's return the half second begins that is the first to bring 95 % of
    /// the full rate; `None`: none did.
    pub back: Option<u64>,
    /// Bytes sent again since a channel failed them.
    pub again: u64,
    /// The same in thousandths of itself and what arrived.
    pub again_share: u64,
    /// Bytes sent twice ahead of need.
    pub twice: u64,
}

impl FailoverReport {
    /// Whether the reader waited longer than it may.
    pub fn is_gap_broken(&self) -> bool {
        self.failure != Failure::None && self.gap.is_none_or(|gap| gap > self.allowed)
    }

    /// Whether the full rate took longer than [`FULL_RATE`] to come back.
    pub fn is_return_broken(&self) -> bool {
        let late = |load: &Load| {
            load.back
                .is_none_or(|back| back > FULL_RATE.as_millis() as u64)
        };
        self.failure != Failure::None && self.load.as_ref().is_some_and(late)
    }
}

/// Lets one link fail in one way. `None` for a link that is not there.
pub fn run(
    scenario: &Scenario,
    direction: Direction,
    link: usize,
    failure: Failure,
    options: &Options,
) -> Option<FailoverReport> {
    scenario.links.get(link)?;
    let mut scenario = scenario.clone();
    scenario.events.clear();
    let mut bond = experiment::ready_bond(&scenario, options);
    let (gap, load) = match failure {
        Failure::Idle => (idle(&mut bond, direction, link), None),
        _ => {
            let (events, returns) = failure.events(link);
            let bulk = Bulk {
                events,
                observer: options.observer,
                ..Bulk::endless(&scenario, direction, ENDS)
            };
            let outcome = bulk::run(&mut bond, &bulk);
            let silent = ENDS.saturating_sub(outcome.arrivals.last().unwrap_or_default());
            let gap = outcome.arrivals.gap(FAILS).max(silent);
            (Some(gap), Some(Load::of(&outcome, returns)))
        }
    };
    Some(FailoverReport {
        scenario: scenario.name.clone(),
        direction,
        link: link + 1,
        failure,
        gap: gap.map(milliseconds),
        allowed: milliseconds(promise::longest_gap(&scenario.links, link)),
        load,
    })
}

/// The longest of some requests on a session at rest, each a while after the link fell silent.
fn idle(bond: &mut Bond, direction: Direction, link: usize) -> Option<Duration> {
    let mut longest = Duration::ZERO;
    for pause in IDLE_PAUSES.map(Duration::from_millis) {
        bond.act(link, Action::BlackHole);
        bond.rest(pause);
        let request = Bulk::new(direction, REQUEST, IDLE_LIMIT);
        longest = longest.max(bulk::run(bond, &request).took?);
        bond.act(link, Action::Pass);
        bond.rest(BETWEEN);
    }
    Some(longest)
}

impl Load {
    fn of(outcome: &Outcome, returns: Duration) -> Self {
        let arrivals = &outcome.arrivals;
        let full = came(arrivals, FAILS - SETTLED, FAILS);
        let without = (returns > FAILS).then(|| came(arrivals, returns - SETTLED, returns));
        let starts = (0..).map(|step| STEP * step);
        let back = starts
            .take_while(|after| returns + *after + WINDOW <= ENDS)
            .find(|after| {
                let from = returns + *after;
                let rate = came(arrivals, from, from + WINDOW);
                rate.bits_per_second() * 1000 >= full.bits_per_second() * promise::OF_FULL_RATE
            });
        let again = outcome.again.as_u64();
        Self {
            full: full.bits_per_second() / 1000,
            without: without.map(|rate| rate.bits_per_second() / 1000),
            back: back.map(milliseconds),
            again,
            again_share: again * 1000 / (arrivals.total().as_u64() + again).max(1),
            twice: outcome.duplicated.as_u64(),
        }
    }
}

fn came(arrivals: &Arrivals, from: Duration, to: Duration) -> Rate {
    Rate::over(arrivals.until(to) - arrivals.until(from), to - from)
}

fn milliseconds(span: Duration) -> u64 {
    span.as_millis() as u64
}

const FAILS: Duration = Duration::from_secs(5);
const RETURNS: Duration = Duration::from_secs(9);
const ENDS: Duration = Duration::from_secs(15);
/// The span over which a rate is taken that is to be steady.
const SETTLED: Duration = Duration::from_secs(2);
/// The span over which the rate after a return is taken, and the steps in which it is sought.
const WINDOW: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(20);
/// Milliseconds between the failure of a link at rest and the request.
const IDLE_PAUSES: [u64; 10] = [3, 20, 57, 113, 211, 433, 867, 1511, 3019, 7013];
const REQUEST: ByteCount = ByteCount::new(200);
const IDLE_LIMIT: Duration = Duration::from_secs(60);
/// Lets a link come back, and the session rest.
const BETWEEN: Duration = Duration::from_secs(5);
