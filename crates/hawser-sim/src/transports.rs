//! The transports beside each other: what `auto` reaches of the better one.

use hawser_scenario::{Direction, Scenario};
use hawser_wire::TransportChoice;
use serde::Serialize;

use crate::experiment::{self, Options};

/// One scenario in one direction over each transport. Goodputs are in kbit/s; `None`: it took too
/// long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TransportReport {
    /// The scenario's name.
    pub scenario: String,
    /// Which way the payload went.
    pub direction: Direction,
    /// The transfers of a session, in order.
    pub transfers: Vec<Goodputs>,
}

/// Goodputs of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Goodputs {
    /// Over TCP channels.
    pub tcp: Option<u64>,
    /// Over an association.
    pub sctp: Option<u64>,
    /// Over what the session chose.
    pub auto: Option<u64>,
}

impl Goodputs {
    /// What `auto` reaches of the better one, in thousandths; `None` where neither ended.
    pub fn of_better(&self) -> Option<u64> {
        let better = self.tcp.max(self.sctp).filter(|better| *better > 0)?;
        Some(self.auto.unwrap_or(0) * 1000 / better)
    }
}

/// Simulates a scenario in one direction over each transport.
pub fn run(scenario: &Scenario, direction: Direction, options: &Options) -> TransportReport {
    let over = |transport| {
        let mut options = options.clone();
        options.bond.transport = transport;
        experiment::run(scenario, direction, &options).transfers
    };
    let tcp = over(TransportChoice::Tcp);
    let sctp = over(TransportChoice::Sctp);
    let auto = over(TransportChoice::Auto);
    let at = |list: &[experiment::Transfer], n: usize| list.get(n).and_then(|it| it.goodput);
    let transfers = (0..options.transfers).map(|n| Goodputs {
        tcp: at(&tcp, n),
        sctp: at(&sctp, n),
        auto: at(&auto, n),
    });
    TransportReport {
        scenario: scenario.name.clone(),
        direction,
        transfers: transfers.collect(),
    }
}
