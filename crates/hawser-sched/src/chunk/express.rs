use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// The channel on which the chunk arrives first, even if that means to wait until it is ready; a
/// chunk that fits one segment goes over the quickest ready channel of another link as well, unless
/// that is far slower.
///
/// Arrival is reckoned in round trips, since what exceeds the window needs another round, and by
/// the link's rate behind all that is in flight on the link, unless that rate is a mere guess. The
/// idea is ECF's (Lim et al., CoNEXT 2017). Of small chunks one lost packet costs nothing, since
/// the copy is on its way already.
#[derive(Debug)]
pub(super) struct Express;

impl ChunkScheduler for Express {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let arrival = |path: &&PathView| (arrival(path, unit.size), path.channel);
        let ready = usable(paths).filter(|path| path.ready);
        let Some(first) = ready.clone().min_by_key(arrival) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        let soonest = usable(paths).min_by_key(arrival);
        if soonest.is_some_and(|soonest| !soonest.ready) {
            return Decision::Wait(None, Reason::QuickerSoon);
        }
        let second = ready
            .filter(|path| path.link != first.link && is_copy_in_time(first.rtt, path.rtt))
            .min_by_key(|path| (path.rtt, path.channel));
        match second {
            Some(second) if unit.size <= SMALL && !unit.again => {
                Decision::Duplicate([first.channel, second.channel], Reason::Redundant)
            }
            _ => Decision::Channel(first.channel, Reason::Earliest),
        }
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::LeastRtt
    }
}

/// True if a short chunk that leaves on a path with the round trip `first` should go over one with
/// the round trip `second` as well: its copy is likely to arrive before the sender would notice
/// that the first path has failed.
pub fn is_copy_in_time(first: Duration, second: Duration) -> bool {
    second <= first * FAR
}

/// In how long the first chunk of `size` bytes that wait would be there.
fn arrival(path: &PathView, size: ByteCount) -> Duration {
    let window = path.congestion_window.max(MIN_WINDOW).as_u64();
    let ahead = path.in_flight + size.min(path.chunk);
    let rounds = ahead.as_u64().saturating_sub(1) / window;
    let by_window = path.rtt / 2 + path.rtt * u32::try_from(rounds).unwrap_or(u32::MAX);
    if path.confidence >= TRUSTED {
        let arrived = path.rate * (path.min_rtt / 2);
        let queued = (ahead + path.beside - arrived).max(ahead);
        by_window.max(path.rate.time_for(queued).unwrap_or_default())
    } else {
        by_window
    }
}

/// How sure a rate must be. An old one, of which little is left, still tells fast links from slow.
const TRUSTED: f64 = 0.02;

/// Before the first sample, and at the least: two segments.
const MIN_WINDOW: ByteCount = ByteCount::new(2896);
/// One segment.
const SMALL: ByteCount = ByteCount::new(1400);
/// A copy that takes longer arrives after a failure of the first path was noticed.
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
            congestion_window: ByteCount::new(20_000),
            chunk: ByteCount::new(5_000),
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
        let one = Decision::Channel(ChannelId::new(2), Reason::Earliest);
        assert_eq!(select(9000, &paths), one);
        assert_eq!(select(100, &paths[1..]), one);
    }

    #[test]
    fn a_far_slower_link_gets_no_copy() {
        let paths = [path(1, 1, 500), path(2, 2, 10)];
        let one = Decision::Channel(ChannelId::new(2), Reason::Earliest);
        assert_eq!(select(100, &paths), one);
    }

    /// 5 kB at 4 Mbit/s take 10 ms; behind 20 kB of bulk 50 ms, and at 2 Mbit/s 20 ms.
    #[test]
    fn what_is_in_flight_on_the_link_counts() {
        let mut paths = [path(1, 1, 2), path(2, 2, 2)];
        for (path, mbit) in paths.iter_mut().zip([4, 2]) {
            path.rate = hawser_types::Rate::from_bits_per_second(mbit * 1_000_000);
            path.confidence = 1.0;
        }
        let to = |channel| Decision::Channel(ChannelId::new(channel), Reason::Earliest);
        assert_eq!(select(5000, &paths), to(1));
        paths[0].beside = ByteCount::new(20_000);
        assert_eq!(select(5000, &paths), to(2));
    }

    #[test]
    fn a_busy_channel_is_waited_for_while_it_is_still_the_quickest() {
        let mut paths = [path(1, 1, 200), path(2, 2, 10)];
        paths[1].ready = false;
        paths[1].in_flight = ByteCount::new(15_000);
        let wait = Decision::Wait(None, Reason::QuickerSoon);
        assert_eq!(select(64_000, &paths), wait);
        // Nine rounds and a half are nearly as long as the half of a long one …
        paths[1].in_flight = ByteCount::new(190_000);
        assert_eq!(select(64_000, &paths), wait);
        // … and a window that a loss has shut is longer.
        paths[1].congestion_window = ByteCount::new(1_448);
        let one = Decision::Channel(ChannelId::new(1), Reason::Earliest);
        assert_eq!(select(64_000, &paths), one);
    }
}
