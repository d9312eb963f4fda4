use hawser_types::{ByteCount, Instant};

use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason, usable};
use crate::PathView;

/// The ready channel with the lowest round-trip time; a chunk that fits one segment goes over the
/// quickest ready channel of another link as well, unless that is far slower.
///
/// One lost packet then costs nothing, since the copy is on its way already.
#[derive(Debug)]
pub(super) struct Express;

impl ChunkScheduler for Express {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let ready = usable(paths).filter(|path| path.ready);
        let Some(first) = ready.clone().min_by_key(|path| (path.rtt, path.channel)) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        let second = ready
            .filter(|path| path.link != first.link && path.rtt <= first.rtt * FAR)
            .min_by_key(|path| (path.rtt, path.channel));
        match second {
            Some(second) if unit.size <= SMALL && !unit.again => {
                Decision::Duplicate([first.channel, second.channel], Reason::Redundant)
            }
            _ => Decision::Channel(first.channel, Reason::LeastRtt),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::LeastRtt
    }
}

/// One segment.
const SMALL: ByteCount = ByteCount::new(1400);
/// A copy that takes longer than a retransmission on the first path would is of no use.
const FAR: u32 = 8;

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

    fn select(size: u64, paths: &[PathView]) -> Decision {
        let unit = ChunkUnit {
            size: ByteCount::new(size),
            ..ChunkUnit::default()
        };
        Express.select(Instant::ZERO, unit, paths)
    }

    #[test]
    fn small_chunks_go_over_two_links_and_larger_ones_over_the_quickest() {
        let paths = [path(1, 1, 30), path(2, 2, 10), path(3, 2, 11)];
        let both = [ChannelId::new(2), ChannelId::new(1)];
        assert_eq!(
            select(100, &paths),
            Decision::Duplicate(both, Reason::Redundant)
        );
        let one = Decision::Channel(ChannelId::new(2), Reason::LeastRtt);
        assert_eq!(select(9000, &paths), one);
        assert_eq!(select(100, &paths[1..]), one);
    }

    #[test]
    fn a_far_slower_link_gets_no_copy() {
        let paths = [path(1, 1, 500), path(2, 2, 10)];
        let one = Decision::Channel(ChannelId::new(2), Reason::LeastRtt);
        assert_eq!(select(100, &paths), one);
    }
}
