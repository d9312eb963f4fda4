use hawser_types::Instant;

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Every chunk over two links, the quickest two that are ready; the first to arrive counts.
///
/// For who pays any price for delay: throughput is that of one link. It waits until two links are
/// ready, since a copy given to a busy link comes too late to help and queues without bound behind
/// others; with two links the slower one sets the pace. What is sent again goes over one.
///
/// Source: the redundant scheduler of MPTCP (A. Frömmgen and others, *ReMP TCP: Low Latency
/// Multipath TCP*, ICC 2016), which uses all paths; beyond two, what each one adds gets
/// small and what it costs does not.
#[derive(Debug)]
pub(super) struct Redundant;

impl ChunkScheduler for Redundant {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let key = |path: &&PathView| (path.rtt, path.channel);
        let ready = usable(paths).filter(|path| path.ready);
        let Some(first) = ready.clone().min_by_key(key) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        let second = ready.filter(|path| path.link != first.link).min_by_key(key);
        let has_other = usable(paths).any(|path| path.link != first.link);
        match second {
            _ if unit.again || !has_other => Decision::Channel(first.channel, Reason::LeastRtt),
            Some(second) => Decision::Duplicate([first.channel, second.channel], Reason::Redundant),
            None => Decision::Wait(None, Reason::NotItsTurn),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::Redundant
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::{ChannelId, LinkIndex};

    use super::*;

    fn path(channel: u32, link: u32, rtt: u64) -> PathView {
        PathView {
            channel: ChannelId::new(channel),
            link: LinkIndex::new(link),
            ready: true,
            rtt: Duration::from_millis(rtt),
            ..PathView::default()
        }
    }

    fn select(again: bool, paths: &[PathView]) -> Decision {
        let unit = ChunkUnit {
            again,
            ..ChunkUnit::default()
        };
        Redundant.select(Instant::ZERO, unit, paths)
    }

    #[test]
    fn each_chunk_goes_over_the_two_quickest_links() {
        let paths = [
            path(1, 1, 30),
            path(2, 2, 10),
            path(3, 2, 11),
            path(4, 3, 20),
        ];
        let both = [ChannelId::new(2), ChannelId::new(4)];
        let twice = Decision::Duplicate(both, Reason::Redundant);
        assert_eq!(select(false, &paths), twice);
        let once = Decision::Channel(ChannelId::new(2), Reason::LeastRtt);
        assert_eq!(select(true, &paths), once);
        assert_eq!(select(false, &paths[1..3]), once);
    }

    #[test]
    fn it_waits_for_a_second_link_that_lives() {
        let mut paths = [path(1, 1, 30), path(2, 2, 10)];
        paths[0].ready = false;
        let wait = Decision::Wait(None, Reason::NotItsTurn);
        assert_eq!(select(false, &paths), wait);
        paths[0].suspect = true;
        let once = Decision::Channel(ChannelId::new(2), Reason::LeastRtt);
        assert_eq!(select(false, &paths), once);
    }
}
