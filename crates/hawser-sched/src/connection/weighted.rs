use hawser_types::LinkIndex;

use super::link_view::known;
use super::{Choice, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};
use crate::SmoothTurns;

/// Links take turns in proportion to their rates in the direction that the connection needs more.
///
/// The turns are spread evenly ([`SmoothTurns`]).
///
/// Source: DBAS §II.D (connection-oriented weighted round robin).
#[derive(Debug, Default)]
pub(super) struct WeightedRoundRobin(SmoothTurns<LinkIndex>);

impl ConnectionScheduler for WeightedRoundRobin {
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        let weights = links.iter().map(|view| (view.link, weight(demand, view)));
        Some(Choice {
            link: self.0.take(weights)?,
            reason: Reason::Turn,
        })
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::WeightedRoundRobin
    }
}

/// In units of 1 kbit/s, at most as much as in the kernel's program, whose credits are narrower.
fn weight(demand: &Demand, view: &LinkView) -> i128 {
    let rate = if demand.up > demand.down {
        view.up
    } else {
        view.down
    };
    i128::from((known(rate).bytes_per_second() / 125).clamp(1, MAX_WEIGHT))
}

/// A terabit in a second.
const MAX_WEIGHT: u64 = 1_000_000_000;
