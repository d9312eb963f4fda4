use hawser_types::ByteCount;

use super::max_throughput::finishes_first;
use super::{Choice, Class, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};

/// Sends long connections over the link that finishes everything soonest, and short or real-time
/// ones over the link that answers soonest under its present load. Of links that answer about as
/// soon, takes the one that finishes first: no connection loses by that, and the links stay even.
#[derive(Debug)]
pub(super) struct Auto;

impl ConnectionScheduler for Auto {
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        if !is_short(demand) {
            return finishes_first(demand, links);
        }
        let soonest = links.iter().map(|view| view.time_to_answer(demand)).min()?;
        let soon = soonest.saturating_add(soonest / ABOUT);
        let near = links
            .iter()
            .filter(|view| view.time_to_answer(demand) <= soon);
        let best = near.min_by_key(|view| (view.time_to_finish(demand), view.latency))?;
        Some(Choice {
            link: best.link,
            reason: Reason::AnswersFirst,
        })
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::Auto
    }
}

/// Whether latency matters more to the connection than rate.
pub(super) fn is_short(demand: &Demand) -> bool {
    match demand.class {
        Class::RealTime => true,
        Class::Interactive => demand.up.max(demand.down) <= SHORT,
        Class::Bulk | Class::Unknown => false,
    }
}

/// Up to here an interactive connection is short: about what is sent in the first round trips,
/// before the rate of a link is felt.
pub const SHORT: ByteCount = ByteCount::new(64 * 1024);
/// Links answer about as soon as each other if the times differ by this part of the shorter.
const ABOUT: u32 = 8;
