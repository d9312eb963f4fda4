//! Transfers compared with those of the kernel's MPTCP: goodput, and queues.

use hawser_scenario::{Congestion, Direction, Scenario};
use serde::Serialize;

use crate::bulk::{self, Bulk};
use crate::experiment::{self, Options, Singles, kilobits, limit};
use crate::mptcp;
use crate::plain;

/// One scenario in one direction. Goodputs are in kbit/s, `None` where it took too long; queues are
/// means over all bytes of the direction, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct MptcpReport {
    /// The scenario's name.
    pub scenario: String,
    /// Which way the payload went.
    pub direction: Direction,
    /// Goodput of plain TCP on the best link.
    pub best: Option<u64>,
    /// The sum of plain TCP on each link.
    pub sum: Option<u64>,
    /// MPTCP with the congestion control with which it delivers more.
    pub mptcp: Measured,
    /// That congestion control.
    pub control: Congestion,
    /// Hawser's transfers over one session, in order.
    pub hawser: Vec<Measured>,
}

/// One transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Measured {
    /// Goodput.
    pub goodput: Option<u64>,
    /// Time in queues.
    pub queue: u64,
}

impl MptcpReport {
    /// Returns what a transfer of Hawser reaches of MPTCP, in thousandths.
    pub fn of_mptcp(&self, hawser: &Measured) -> Option<u64> {
        thousandths(hawser.goodput, self.mptcp.goodput)
    }

    /// Returns what a transfer of Hawser reaches of the best link, in thousandths.
    pub fn of_best(&self, hawser: &Measured) -> Option<u64> {
        thousandths(hawser.goodput, self.best)
    }

    /// Returns a transfer's queue as a part of MPTCP's, in thousandths.
    pub fn queue_of_mptcp(&self, hawser: &Measured) -> Option<u64> {
        thousandths(Some(hawser.queue), Some(self.mptcp.queue))
    }
}

fn thousandths(part: Option<u64>, whole: Option<u64>) -> Option<u64> {
    (part? * 1000).checked_div(whole?)
}

/// Simulates a scenario in one direction. What happens to links by events is left out.
pub fn run(scenario: &Scenario, direction: Direction, options: &Options) -> MptcpReport {
    let mut scenario = scenario.clone();
    scenario.events.clear();
    scenario.payload = options.payload.unwrap_or(scenario.payload);
    let alone = Options {
        singles: Singles::Undisturbed,
        transfers: 0,
        ..options.clone()
    };
    let singles = experiment::run(&scenario, direction, &alone);
    let (mptcp, control) = mptcp(&scenario, direction, options.seed);
    MptcpReport {
        scenario: scenario.name.clone(),
        direction,
        best: singles.best(),
        sum: singles.sum(),
        mptcp,
        control,
        hawser: hawser(&scenario, direction, options),
    }
}

fn mptcp(scenario: &Scenario, direction: Direction, seed: u64) -> (Measured, Congestion) {
    let bytes = scenario.payload;
    let [cubic, bbr] = [Congestion::Cubic, Congestion::Bbr].map(|congestion| {
        let transfer = plain::Transfer {
            congestion,
            direction,
            bytes,
            seed,
            events: Vec::new(),
            limit: limit(bytes, scenario.total_rate(direction)),
        };
        let outcome = mptcp::run(&scenario.links, &transfer);
        outcome.map_or_else(Measured::default, |outcome| Measured {
            goodput: Some(kilobits(bytes, outcome.took)),
            queue: outcome.queueing.mean().as_micros() as u64,
        })
    });
    if cubic.goodput >= bbr.goodput {
        (cubic, Congestion::Cubic)
    } else {
        (bbr, Congestion::Bbr)
    }
}

fn hawser(scenario: &Scenario, direction: Direction, options: &Options) -> Vec<Measured> {
    let bytes = scenario.payload;
    let mut bond = experiment::ready_bond(scenario, options);
    let mut measured = Vec::new();
    for _ in 0..options.transfers {
        let before = bond.network().queueing(direction);
        let bulk = Bulk {
            observer: options.observer,
            ..Bulk::new(
                direction,
                bytes,
                limit(bytes, scenario.total_rate(direction)),
            )
        };
        let outcome = bulk::run(&mut bond, &bulk);
        let queueing = bond.network().queueing(direction).since(before);
        measured.push(Measured {
            goodput: outcome.took.map(|took| kilobits(bytes, took)),
            queue: queueing.mean().as_micros() as u64,
        });
        if outcome.took.is_none() {
            break;
        }
        bond.rest(experiment::PAUSE);
    }
    measured
}
