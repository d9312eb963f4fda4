use super::{Choice, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};

/// The link on which everything that is open, and the new connection, is finished soonest.
///
/// Where the new connection goes changes one link's time only, so the link that finishes it first
/// is also the one that finishes the whole first. Of equals the one that answers sooner, then the
/// one with the lowest index.
///
/// Source: DBAS §II.D (connection-oriented maximum throughput).
#[derive(Debug)]
pub(super) struct MaxThroughput;

impl ConnectionScheduler for MaxThroughput {
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        finishes_first(demand, links)
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::MaxThroughput
    }
}

pub(super) fn finishes_first(demand: &Demand, links: &[LinkView]) -> Option<Choice> {
    let cost = |view: &&LinkView| (view.time_to_finish(demand), view.latency);
    let best = links.iter().min_by_key(cost)?;
    Some(Choice {
        link: best.link,
        reason: Reason::FinishesFirst,
    })
}
