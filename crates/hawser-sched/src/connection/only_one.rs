use super::{Choice, ConnectionPolicy, ConnectionScheduler, Demand, LinkView, Reason};

/// Every connection over the link with the highest rate, down and up together; of equals over the
/// one with the lowest index. What systems without bonding do at their best.
///
/// Source: DBAS §II.D (Only-One).
#[derive(Debug)]
pub(super) struct OnlyOne;

impl ConnectionScheduler for OnlyOne {
    fn select(&mut self, _demand: &Demand, links: &[LinkView]) -> Option<Choice> {
        // Of equals, `max_by_key` takes the last.
        let rate = |view: &&LinkView| {
            view.down
                .bytes_per_second()
                .saturating_add(view.up.bytes_per_second())
        };
        let best = links.iter().rev().max_by_key(rate)?;
        Some(Choice {
            link: best.link,
            reason: Reason::Fastest,
        })
    }

    fn policy(&self) -> ConnectionPolicy {
        ConnectionPolicy::OnlyOne
    }
}
