//! While something interactive goes on, bulk leaves it the queues of slow links.
//!
//! There bbr keeps at least four segments under way, and a record of several goes out at once: that alone is
//! 100 ms and more. So records are of one segment, and the next one waits until it adds no queue
//! beyond the target.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use hawser_wire::ChannelRole;

use super::Session;
use crate::ChunkSize;
use crate::channel::{Channel, DETOUR};

/// When small chunks went ahead of bulk.
#[derive(Debug, Default)]
pub(super) struct Interactive {
    last: Option<Instant>,
    before: Option<Instant>,
}

impl Interactive {
    /// A chunk was cut from a stream.
    pub(super) fn on_cut(&mut self, now: Instant, role: ChannelRole, length: usize) {
        if role == ChannelRole::Express && length <= SMALL {
            self.before = self.last.replace(now);
        }
    }

    /// A single small chunk may be anything; two within a second are an exchange.
    fn goes_on(&self, now: Instant) -> bool {
        self.before.is_some_and(|at| now.since(at) <= RECENT)
    }
}

impl Session {
    /// Whether bulk has so much under way on a slow link that more of it would only stand in the
    /// link's queue, where something interactive has to go.
    ///
    /// `in_flight`: what was written to the channel and the peer's kernel has not acknowledged,
    /// asked only when it matters.
    pub(super) fn is_restrained(
        &self,
        now: Instant,
        channel: &Channel,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        if !self.interactive.goes_on(now) {
            return false;
        }
        let Some(enough) = channel.fills_path() else {
            return false;
        };
        let shortest = self.shortest_path();
        let length = channel.path.min_rtt().unwrap_or_default();
        length < shortest.unwrap_or_default() + DETOUR && in_flight() > enough
    }

    /// How large the chunks for a channel are: on a slow link one of several packets would be a queue by
    /// itself.
    pub(super) fn chunk_size(&self, now: Instant, channel: &Channel) -> ChunkSize {
        match self.config.chunk_size {
            ChunkSize::Auto if channel.is_slow_bulk() && self.interactive.goes_on(now) => {
                ChunkSize::Mtu
            }
            size => size,
        }
    }
}

impl Channel {
    /// A bulk channel over a slow link.
    fn is_slow_bulk(&self) -> bool {
        let rate = self.path.rate();
        self.spec.role == ChannelRole::Bulk && rate > Rate::ZERO && rate <= SLOW
    }

    /// How much under way, ahead of another segment, fills the path and a little of its queue; `None`: the
    /// link is not slow, or has no queue now. What the round-trip time varies by is the path's,
    /// and no queue.
    ///
    /// The rate is what came last: the most that ever came would be an idle moment's on a fresh connection,
    /// and what a channel carries that is held back says nothing of the most.
    fn fills_path(&self) -> Option<ByteCount> {
        let kernel = self.path.latest();
        let queue = QUEUE + kernel.rtt_variation;
        let young = kernel.delivered.is_some_and(|delivered| delivered < YOUNG);
        let none = if young { queue } else { SHORT_QUEUE };
        if !self.is_slow_bulk() || self.path.delay().standing_queue() <= none {
            return None;
        }
        let shortest = self.path.min_rtt().unwrap_or_default();
        let rate = self.path.rate().min(kernel.delivery_rate);
        let enough = rate * (shortest + queue);
        Some(enough.max(FEW) - SEGMENT)
    }
}

/// One segment.
const SMALL: usize = 1400;
const RECENT: Duration = Duration::from_secs(1);
/// Above this a queue of a hundred packets is gone in half a second.
const SLOW: Rate = Rate::from_bits_per_second(2_000_000);
/// The queue that bulk may build in a link.
const QUEUE: Duration = Duration::from_millis(30);
/// No queue to speak of: one that lasts for no packet at the rates in question.
const SHORT_QUEUE: Duration = Duration::from_millis(10);
/// Segments before which a quick link may look slow, and its jitter like a queue.
const YOUNG: u64 = 20;
const SEGMENT: ByteCount = ByteCount::new(1448);
/// One segment on its way and one behind it.
const FEW: ByteCount = ByteCount::new(2 * 1448);

#[cfg(test)]
mod tests {
    use hawser_path::KernelSample;
    use hawser_types::{ChannelId, LinkIndex};

    use super::*;
    use crate::channel::ChannelSpec;
    use crate::{SessionConfig, Side};

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn two_small_chunks_within_a_second_are_an_exchange() {
        let mut interactive = Interactive::default();
        interactive.on_cut(at(0), ChannelRole::Express, 64);
        assert!(!interactive.goes_on(at(0)));
        interactive.on_cut(at(100), ChannelRole::Bulk, 64);
        interactive.on_cut(at(100), ChannelRole::Express, 5000);
        assert!(!interactive.goes_on(at(100)));
        interactive.on_cut(at(200), ChannelRole::Express, 64);
        assert!(interactive.goes_on(at(1000)));
        assert!(!interactive.goes_on(at(1001)));
    }

    /// A channel with samples at 10 and 100 ms: an empty path of 50 ms, then one with a queue.
    fn channel(rate: Rate, queue: u64) -> Channel {
        let mut channel = Channel::new(ChannelSpec {
            id: ChannelId::new(1),
            role: ChannelRole::Bulk,
            link: LinkIndex::new(0),
            records: 1,
            segment_size: Some(1448),
        });
        for (millis, queue) in [(10, 0), (100, queue)] {
            let sample = KernelSample {
                rtt: Duration::from_millis(50 + queue),
                min_rtt: Some(Duration::from_millis(50)),
                delivery_rate: rate,
                unacknowledged: ByteCount::new(100_000),
                ..KernelSample::default()
            };
            channel.on_sample(at(millis), sample);
        }
        channel
    }

    #[test]
    fn a_slow_link_with_a_queue_is_full_when_the_next_segment_would_exceed_the_target() {
        let rate = Rate::from_bits_per_second(800_000);
        let full = channel(rate, 400).fills_path();
        assert_eq!(full, Some(rate * Duration::from_millis(80) - SEGMENT));
        let slower = Rate::from_bits_per_second(80_000);
        let least = channel(slower, 400).fills_path();
        assert_eq!(least, Some(FEW - SEGMENT));
    }

    #[test]
    fn what_came_last_counts_and_not_what_once_came() {
        let mut channel = channel(Rate::from_bits_per_second(1_600_000), 400);
        let rate = Rate::from_bits_per_second(800_000);
        let sample = KernelSample {
            delivery_rate: rate,
            app_limited: true,
            ..*channel.path.latest()
        };
        channel.on_sample(at(110), sample);
        assert!(channel.path.rate() > rate);
        let full = channel.fills_path();
        assert_eq!(full, Some(rate * Duration::from_millis(80) - SEGMENT));
    }

    #[test]
    fn without_a_queue_and_on_fast_links_nothing_is_full() {
        let slow = Rate::from_bits_per_second(800_000);
        assert_eq!(channel(slow, 10).fills_path(), None);
        let fast = Rate::from_bits_per_second(8_000_000);
        assert_eq!(channel(fast, 400).fills_path(), None);
        let mut young = channel(slow, 20);
        assert!(young.fills_path().is_some());
        let sample = KernelSample {
            delivered: Some(YOUNG - 1),
            ..*young.path.latest()
        };
        young.on_sample(at(110), sample);
        assert_eq!(young.fills_path(), None);
    }

    #[test]
    fn chunks_of_slow_links_are_one_segment_while_something_interactive_goes_on() {
        let mut session = Session::new(at(0), Side::Client, SessionConfig::default());
        let slow = channel(Rate::from_bits_per_second(800_000), 400);
        let fast = channel(Rate::from_bits_per_second(8_000_000), 400);
        assert_eq!(session.chunk_size(at(100), &slow), ChunkSize::Auto);
        for millis in [80, 100] {
            session
                .interactive
                .on_cut(at(millis), ChannelRole::Express, 64);
        }
        assert_eq!(session.chunk_size(at(100), &slow), ChunkSize::Mtu);
        assert_eq!(session.chunk_size(at(100), &fast), ChunkSize::Auto);
        session.config.chunk_size = ChunkSize::Fixed(ByteCount::new(4000));
        let fixed = session.config.chunk_size;
        assert_eq!(session.chunk_size(at(100), &slow), fixed);
    }
}
