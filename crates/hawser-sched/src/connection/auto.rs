use hawser_types::ByteCount;

use super::max_throughput::finishes_first;
use super::{Choice, Class, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};

/// What is long goes where everything is finished soonest; what is short, or heard and seen, goes
/// where it is answered soonest under the link's present load.
#[derive(Debug)]
pub(super) struct Auto;

impl ConnectionScheduler for Auto {
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        if !is_short(demand) {
            return finishes_first(demand, links);
        }
        let cost = |view: &&LinkView| (view.time_to_answer(demand), view.latency);
        let best = links.iter().min_by_key(cost)?;
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
fn is_short(demand: &Demand) -> bool {
    match demand.class {
        Class::RealTime => true,
        Class::Interactive => demand.up.max(demand.down) <= SHORT,
        Class::Bulk | Class::Unknown => false,
    }
}

/// Up to here an interactive connection is short: about what is sent in the first round trips,
/// before the rate of a link is felt.
pub const SHORT: ByteCount = ByteCount::new(64 * 1024);
