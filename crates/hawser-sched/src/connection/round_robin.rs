use hawser_types::LinkIndex;

use super::{Choice, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};

/// Links take turns, one connection each.
///
/// Source: DBAS §II.D (connection-oriented round robin).
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    last: Option<LinkIndex>,
}

impl ConnectionScheduler for RoundRobin {
    fn select(&mut self, _demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        let after = |view: &&LinkView| self.last.is_some_and(|last| view.link > last);
        let next = links.iter().find(after).or(links.first())?;
        self.last = Some(next.link);
        Some(Choice {
            link: next.link,
            reason: Reason::Turn,
        })
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::RoundRobin
    }
}
