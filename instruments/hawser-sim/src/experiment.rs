//! One scenario, whole: plain TCP on each link alone, then a session over all of them.

use std::time::Duration;

use hawser_scenario::figures::percentile;
use hawser_scenario::{Congestion, Direction, Line, Link, Scenario};
use hawser_session::Side;
use hawser_session::recorder::{Head, Recording};
use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::Serialize;

use crate::bond::{Bond, BondConfig};
use crate::bulk::{self, Bulk, Observer, Outcome};
use crate::plain;

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Draws everything that is random.
    pub seed: u64,
    /// The payload of a transfer over all links, instead of the scenario's.
    pub payload: Option<ByteCount>,
    /// Transfers over one session, one after another.
    pub transfers: usize,
    /// Plain TCP on each link alone.
    pub singles: Singles,
    /// An interactive stream runs beside each transfer.
    pub ticks: bool,
    /// Who looks on.
    pub observer: Option<Observer>,
    /// How the two ends are set up.
    pub bond: BondConfig,
}

impl Options {
    /// No transfers and nothing beside them, for those who make their own.
    pub fn new(seed: u64, bond: BondConfig) -> Self {
        Self {
            seed,
            payload: None,
            transfers: 0,
            singles: Singles::None,
            ticks: false,
            observer: None,
            bond,
        }
    }
}

/// How plain TCP on each link alone is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Singles {
    /// Not at all.
    None,
    /// As the lab does: what happens to links is for those who use several.
    Undisturbed,
    /// With what happens to the link.
    Disturbed,
}

/// What a scenario came to in one direction. All numbers are whole, so that a report is the same
/// on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TransferReport {
    /// The scenario's name.
    pub scenario: String,
    /// Which way the payload went.
    pub direction: Direction,
    /// The seed.
    pub seed: u64,
    /// Bytes of payload.
    pub payload: u64,
    /// Plain TCP on each link.
    pub singles: Vec<Single>,
    /// The transfers over all links, in order; the first is that of a fresh session.
    pub transfers: Vec<Transfer>,
}

/// Plain TCP on one link, in kbit/s of payload; `None`: it took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Single {
    /// With CUBIC.
    pub cubic: Option<u64>,
    /// With BBR.
    pub bbr: Option<u64>,
}

/// One transfer over all links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transfer {
    /// Goodput in kbit/s of payload; `None`: it took too long.
    pub goodput: Option<u64>,
    /// Goodput over the sum of the single links' better ones, in thousandths.
    pub of_sum: Option<u64>,
    /// Goodput over the best single link's, in thousandths.
    pub of_best: Option<u64>,
    /// The longest time without anything new at the reader, in milliseconds.
    pub gap: u64,
    /// The most that waited for order, in bytes.
    pub waiting: u64,
    /// Bytes sent twice ahead of need.
    pub duplicated: u64,
    /// Bytes sent again since a channel failed them.
    pub again: u64,
    /// What the slower way of an interactive stream beside it took at the 99th percentile beyond
    /// the shortest delay of any link, in milliseconds; `None` without one.
    pub added_delay: Option<u64>,
}

impl Single {
    /// The better congestion control's.
    pub fn best(&self) -> Option<u64> {
        self.cubic.max(self.bbr)
    }
}

impl TransferReport {
    /// The sum of the single links' better goodputs, where all are known.
    pub fn sum(&self) -> Option<u64> {
        let all: Option<u64> = self.singles.iter().map(Single::best).sum();
        all.filter(|sum| *sum > 0)
    }

    /// The best single link's goodput.
    pub fn best(&self) -> Option<u64> {
        self.singles.iter().filter_map(Single::best).max()
    }
}

/// Simulates a scenario in one direction.
pub fn run(scenario: &Scenario, direction: Direction, options: &Options) -> TransferReport {
    record(scenario, direction, options).0
}

/// As [`run`]; gives as well what the sender has recorded, as far as its recorder has memory.
pub fn record(
    scenario: &Scenario,
    direction: Direction,
    options: &Options,
) -> (TransferReport, Recording) {
    let mut scenario = scenario.clone();
    scenario.payload = options.payload.unwrap_or(scenario.payload);
    let mut alone = scenario.clone();
    alone
        .events
        .retain(|_| options.singles == Singles::Disturbed);
    let singles = match options.singles {
        Singles::None => Vec::new(),
        Singles::Undisturbed | Singles::Disturbed => (0..alone.links.len())
            .map(|index| single(&alone, direction, index, options.seed))
            .collect(),
    };
    let mut report = TransferReport {
        scenario: scenario.name.clone(),
        direction,
        seed: options.seed,
        payload: scenario.payload.as_u64(),
        singles,
        transfers: Vec::new(),
    };
    let mut bond = ready_bond(&scenario, options);
    for _ in 0..options.transfers {
        let bulk = Bulk {
            direction,
            bytes: scenario.payload,
            events: scenario.events.clone(),
            ticks: options.ticks,
            asks_at_rest: false,
            observer: options.observer,
            limit: limit(scenario.payload, scenario.total_rate(direction)),
        };
        let outcome = bulk::run(&mut bond, &bulk);
        let mut transfer = judge(&report, &outcome, scenario.payload);
        transfer.added_delay = added_delay(&scenario, &outcome);
        report.transfers.push(transfer);
        if outcome.took.is_none() {
            break;
        }
        bond.rest(PAUSE);
    }
    let recording = recording(&bond, direction, scenario.links.len(), options);
    (report, recording)
}

fn recording(bond: &Bond, direction: Direction, links: usize, options: &Options) -> Recording {
    let side = match direction {
        Direction::Put => Side::Client,
        Direction::Get => Side::Gateway,
    };
    let recorder = bond.session(side).recorder();
    let links = 1..=links as u32;
    recorder.recording(Head {
        side,
        policy: options.bond.session.scheduler,
        began: bond.now(),
        taken: bond.now(),
        taken_unix_ms: 0,
        is_whole: true,
        links: links
            .map(|n| (LinkIndex::new(n), format!("l{n}")))
            .collect(),
        destinations: Vec::new(),
    })
}

/// A bond whose channels all stand, as far as they can.
pub fn ready_bond(scenario: &Scenario, options: &Options) -> Bond {
    let mut bond = Bond::new(scenario, options.seed, options.bond.clone());
    let began = bond.now();
    let all = scenario.links.len() * 2;
    while bond.channels() < all && bond.now().since(began) < START_LIMIT {
        bond.rest(START_STEP);
    }
    bond.rest(PAUSE);
    bond
}

fn single(scenario: &Scenario, direction: Direction, index: usize, seed: u64) -> Single {
    let link = &scenario.links[index];
    let bytes = scenario.single_payload(index, direction);
    let own = scenario.events.iter().filter(|event| event.link == index);
    let events: Vec<_> = own.map(|event| (event.at, event.action)).collect();
    let goodput = |congestion| {
        let transfer = plain::Transfer {
            congestion,
            direction,
            bytes,
            seed,
            events: events.clone(),
            limit: limit(bytes, link.line(direction).rate),
        };
        let took = plain::run(link, &transfer)?;
        Some(kilobits(bytes, took))
    };
    Single {
        cubic: goodput(Congestion::Cubic),
        bbr: goodput(Congestion::Bbr),
    }
}

fn judge(report: &TransferReport, outcome: &Outcome, payload: ByteCount) -> Transfer {
    let goodput = outcome.took.map(|took| kilobits(payload, took));
    let over = |whole: Option<u64>| {
        let whole = whole.filter(|whole| *whole > 0)?;
        Some((goodput? * 1000 + whole / 2) / whole)
    };
    Transfer {
        goodput,
        of_sum: over(report.sum()),
        of_best: over(report.best()),
        gap: outcome.arrivals.gap(Duration::ZERO).as_millis() as u64,
        waiting: outcome.most_waiting.as_u64(),
        duplicated: outcome.duplicated.as_u64(),
        again: outcome.again.as_u64(),
        added_delay: None,
    }
}

fn added_delay(scenario: &Scenario, outcome: &Outcome) -> Option<u64> {
    let shortest = |line: fn(&Link) -> &Line| scenario.links.iter().map(|l| line(l).delay).min();
    let bases = [shortest(|link| &link.up), shortest(|link| &link.down)];
    let added = outcome
        .ticks
        .iter()
        .zip(bases)
        .filter_map(|(delays, base)| {
            let slow = percentile(delays, 99)?;
            Some(slow.saturating_sub(base?).as_millis() as u64)
        });
    added.max()
}

pub(crate) fn kilobits(bytes: ByteCount, took: Duration) -> u64 {
    Rate::over(bytes, took).bits_per_second() / 1000
}

/// When a transfer is given up: fifty times what the rate allows, and two minutes.
pub(crate) fn limit(bytes: ByteCount, rate: Rate) -> Duration {
    rate.time_for(bytes).unwrap_or_default() * 50 + Duration::from_secs(120)
}

/// Between transfers, and before the first.
pub(crate) const PAUSE: Duration = Duration::from_millis(300);
const START_STEP: Duration = Duration::from_millis(20);
const START_LIMIT: Duration = Duration::from_secs(30);
