use std::collections::BTreeMap;

use hawser_types::LinkIndex;

use super::{
    Choice, ConnectionPolicy, ConnectionScheduler, Demand, FALLBACK_RATE, LinkView, Reason,
};

/// Links take turns in proportion to their rates in the direction that the connection needs more.
///
/// Every turn gives each link a credit of its rate, and the richest pays the sum of all for the
/// connection it gets, which spreads the turns evenly.
///
/// Source: DBAS §II.D (connection-oriented weighted round robin).
#[derive(Debug, Default)]
pub(super) struct WeightedRoundRobin {
    credits: BTreeMap<LinkIndex, i64>,
}

impl ConnectionScheduler for WeightedRoundRobin {
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        self.credits
            .retain(|link, _| links.iter().any(|view| view.link == *link));
        let mut total = 0;
        for view in links {
            let weight = weight(demand, view);
            total += weight;
            *self.credits.entry(view.link).or_default() += weight;
        }
        // Of equals, `max_by_key` takes the last.
        let (link, credit) = self
            .credits
            .iter_mut()
            .rev()
            .max_by_key(|(_, credit)| **credit)?;
        *credit -= total;
        Some(Choice {
            link: *link,
            reason: Reason::Turn,
        })
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::WeightedRoundRobin
    }
}

/// In units of 1 kbit/s, so that no credit overflows.
fn weight(demand: &Demand, view: &LinkView) -> i64 {
    let rate = if demand.up > demand.down {
        view.up
    } else {
        view.down
    };
    let rate = if rate.bytes_per_second() == 0 {
        FALLBACK_RATE
    } else {
        rate
    };
    i64::try_from((rate.bytes_per_second() / 125).clamp(1, MAX_WEIGHT)).unwrap_or(i64::MAX)
}

/// A terabit in a second.
const MAX_WEIGHT: u64 = 1_000_000_000;
