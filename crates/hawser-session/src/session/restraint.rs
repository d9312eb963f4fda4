//! While something interactive goes on, bulk leaves it the queues of slow links.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use hawser_wire::ChannelRole;

use super::Session;
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
        let Some(enough) = channel.fills_path(now) else {
            return false;
        };
        let sound = self.channels.values().filter(|c| c.suspect_since.is_none());
        let shortest = sound.filter_map(|other| other.path.min_rtt()).min();
        let length = channel.path.min_rtt().unwrap_or_default();
        length < shortest.unwrap_or_default() + DETOUR && in_flight() > enough
    }
}

impl Channel {
    /// How much under way fills the path and a little of its queue; `None`: the link is not slow, or
    /// has no queue now. What the round-trip time varies by is the path's, and no queue. A fresh
    /// connection's rate is that of its handshake, and says nothing.
    fn fills_path(&self, now: Instant) -> Option<ByteCount> {
        let rate = self.path.rate();
        if self.spec.role != ChannelRole::Bulk || rate == Rate::ZERO || rate > SLOW {
            return None;
        }
        let queue = QUEUE + self.path.latest().rtt_variation;
        if self.path.delay().standing_queue() <= queue {
            return None;
        }
        if self.path.delivery().confidence(now) == 0.0 {
            return Some(FEW);
        }
        let shortest = self.path.min_rtt().unwrap_or_default();
        let enough = rate * (shortest + queue);
        Some(enough.max(FEW))
    }
}

/// One segment.
const SMALL: usize = 1400;
const RECENT: Duration = Duration::from_secs(1);
/// Above this a queue of a hundred packets is gone in half a second.
const SLOW: Rate = Rate::from_bits_per_second(2_000_000);
/// The queue that bulk may build in a link.
const QUEUE: Duration = Duration::from_millis(30);
/// One segment on its way and one behind it.
const FEW: ByteCount = ByteCount::new(2 * 1448);

#[cfg(test)]
mod tests {
    use hawser_path::KernelSample;
    use hawser_types::{ChannelId, LinkIndex};

    use super::*;
    use crate::channel::ChannelSpec;

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
    fn a_slow_link_with_a_queue_is_full_with_its_path_and_the_target() {
        let rate = Rate::from_bits_per_second(800_000);
        let full = channel(rate, 400).fills_path(at(100));
        assert_eq!(full, Some(rate * Duration::from_millis(80)));
        let slower = Rate::from_bits_per_second(80_000);
        let least = channel(slower, 400).fills_path(at(100));
        assert_eq!(least, Some(FEW));
    }

    #[test]
    fn without_a_queue_and_on_fast_links_nothing_is_full() {
        let slow = Rate::from_bits_per_second(800_000);
        assert_eq!(channel(slow, 20).fills_path(at(100)), None);
        let fast = Rate::from_bits_per_second(8_000_000);
        assert_eq!(channel(fast, 400).fills_path(at(100)), None);
    }
}
