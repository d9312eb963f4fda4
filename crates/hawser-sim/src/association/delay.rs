//! How long a small message takes on a stream that is idle otherwise, beside streams that are busy:
//! over an association, and over a session with TCP channels.

mod over_association;
mod over_session;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_scenario::Scenario;
use hawser_sctp::AssociationConfig;
use hawser_types::{ByteCount, Instant};
use serde::Serialize;

use crate::bond::BondConfig;
use crate::experiment;
use crate::objects::Spread;

/// What is asked of both.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Streams from the client that always have something to send.
    pub busy: u16,
    /// How long messages are sent.
    pub span: Duration,
}

/// What came of a load over the links of a scenario. All numbers are whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DelayReport {
    /// The scenario's name.
    pub scenario: String,
    /// Streams that were busy.
    pub busy: u16,
    /// Seeds that were drawn from.
    pub seeds: u64,
    /// Over associations.
    pub association: Delays,
    /// Over sessions.
    pub session: Delays,
}

/// What messages and the busy streams came to over one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Delays {
    /// How many messages were sent.
    pub messages: u64,
    /// Of the messages, from the moment at which each was to be sent.
    pub delay: Spread,
    /// Goodput of all busy streams together, in kbit/s.
    pub goodput: u64,
}

/// One run.
#[derive(Debug, Default)]
struct Ledger {
    /// When messages were written that have not arrived.
    in_flight: VecDeque<Instant>,
    /// Bytes of messages that have come.
    arrived: u64,
    delays: Vec<Duration>,
    /// Payload of the busy streams.
    bulk: u64,
}

/// Runs a load with seeds from 1. `None`: no association came to be.
pub fn run(
    scenario: &Scenario,
    load: &Load,
    config: &AssociationConfig,
    bond: &BondConfig,
    seeds: u64,
) -> Option<DelayReport> {
    let over_associations: Option<Vec<Ledger>> = (1..=seeds)
        .map(|seed| over_association::run(scenario, load, config, seed))
        .collect();
    let over_sessions = (1..=seeds).map(|seed| over_session::run(scenario, load, bond, seed));
    Some(DelayReport {
        scenario: scenario.name.clone(),
        busy: load.busy,
        seeds,
        association: Delays::of(over_associations?, load),
        session: Delays::of(over_sessions.collect(), load),
    })
}

impl DelayReport {
    /// The session's 99th percentile over the association's, in hundredths.
    pub fn gain(&self) -> Option<u64> {
        let own = self.association.delay.p99?;
        Some((self.session.delay.p99? * 100 + own / 2) / own.max(1))
    }
}

impl Delays {
    fn of(ledgers: Vec<Ledger>, load: &Load) -> Self {
        let span = load.span * ledgers.len() as u32;
        let bulk = ledgers.iter().map(|ledger| ledger.bulk).sum();
        // What never arrived counts as longer than everything.
        let each = |ledger: Ledger| {
            let lost = ledger.in_flight.into_iter().map(|_| None);
            ledger.delays.into_iter().map(Some).chain(lost)
        };
        let all: Vec<Option<Duration>> = ledgers.into_iter().flat_map(each).collect();
        Self {
            messages: all.len() as u64,
            delay: Spread::of(all.into_iter()),
            goodput: experiment::kilobits(ByteCount::new(bulk), span),
        }
    }
}

impl Ledger {
    fn on_written(&mut self, now: Instant) {
        self.in_flight.push_back(now);
    }

    /// So many bytes of messages have come, in order.
    fn on_read(&mut self, now: Instant, bytes: u64) {
        let before = self.arrived / MESSAGE.len() as u64;
        self.arrived += bytes;
        for _ in before..self.arrived / MESSAGE.len() as u64 {
            if let Some(left) = self.in_flight.pop_front() {
                self.delays.push(now.since(left));
            }
        }
    }
}

/// When the message with this number is written, after the busy streams have begun: ten in a
/// second, not in step with any timer.
fn written_at(number: u32) -> Duration {
    WARM_UP + EVERY * number + Duration::from_micros(u64::from(number) * 7919 % 30_000)
}

static MESSAGE: [u8; 1000] = [0xa5; 1000];
const EVERY: Duration = Duration::from_millis(100);
/// Messages do not count before the busy streams have filled the links.
const WARM_UP: Duration = Duration::from_secs(2);
/// How long what is in flight at the end is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
