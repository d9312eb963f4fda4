//! An association compared with TCP channels over the same links.

use hawser_scenario::{Direction, Scenario};
use hawser_sctp::AssociationConfig;
use serde::Serialize;

use super::fabric::Fabric;
use super::transfer::Transfer;
use crate::experiment::{self, Options, TransferReport};

/// What a scenario came to in one direction. All numbers are whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Comparison {
    /// TCP on each link, and a session with TCP channels over all.
    pub session: TransferReport,
    /// The transfers over an association, in order; the first is that of a fresh one.
    pub association: Vec<Carried>,
}

/// One transfer over an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Carried {
    /// Goodput in kbit/s of payload; `None`: it took too long.
    pub goodput: Option<u64>,
    /// Bytes of payload that were sent more than once, each time counting.
    pub repeated: u64,
}

/// Runs a scenario over both. `None`: no association came to be.
pub fn run(
    scenario: &Scenario,
    direction: Direction,
    config: &AssociationConfig,
    options: &Options,
) -> Option<Comparison> {
    let session = experiment::run(scenario, direction, options);
    let bytes = options.payload.unwrap_or(scenario.payload);
    let transfer = Transfer {
        direction,
        bytes,
        events: &scenario.events,
        limit: experiment::limit(bytes, scenario.total_rate(direction)),
    };
    let mut fabric = Fabric::of_links(config, &scenario.links, options.seed);
    if !fabric.establish(config) {
        return None;
    }
    let mut association = Vec::new();
    for _ in 0..options.transfers {
        // Every path has answered by then, as every channel of the session stands.
        fabric.run_until(experiment::PAUSE, |_| false);
        let moved = transfer.run(&mut fabric);
        association.push(Carried {
            goodput: moved.took.map(|took| experiment::kilobits(bytes, took)),
            repeated: moved.repeated.as_u64(),
        });
        if moved.took.is_none() {
            break;
        }
    }
    Some(Comparison {
        session,
        association,
    })
}

impl Comparison {
    /// The association's warm goodput over the session's, in thousandths.
    pub fn of_session(&self) -> Option<u64> {
        let session = self.session.transfers.get(1)?.goodput?;
        let own = self.association.get(1)?.goodput?;
        Some((own * 1000 + session / 2) / session.max(1))
    }
}
