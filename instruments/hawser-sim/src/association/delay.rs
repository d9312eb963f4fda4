//! Delay of a small message on an otherwise idle stream, beside busy streams: over an association,
//! and over a session with TCP channels.

mod messages;
mod over_association;
mod over_session;

use std::time::Duration;

use hawser_scenario::Scenario;
use hawser_sctp::AssociationConfig;
use hawser_types::ByteCount;
use serde::Serialize;

use crate::bond::BondConfig;
use crate::experiment;
use crate::objects::Spread;
use messages::Ledger;
pub use messages::Load;

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
        let bulk = ledgers.iter().map(Ledger::bulk).sum();
        // What never arrived counts as longer than everything.
        let all: Vec<Option<Duration>> =
            ledgers.into_iter().flat_map(Ledger::into_delays).collect();
        Self {
            messages: all.len() as u64,
            delay: Spread::of(all.into_iter()),
            goodput: experiment::kilobits(ByteCount::new(bulk), span),
        }
    }
}
