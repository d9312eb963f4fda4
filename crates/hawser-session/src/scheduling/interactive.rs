//! Restraint of bulk on slow links while something interactive goes on.
//!
//! On a slow link bbr keeps at least four segments in flight, and a record of several goes out at
//! once: that alone is 100 ms and more. So records are of one segment, and the next one waits until
//! it adds no queue beyond the target.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use hawser_wire::ChannelRole;

use crate::channel::{Channel, DETOUR};
use crate::config::ChunkSize;

/// Times of the latest two small chunks that went ahead of bulk.
#[derive(Debug, Default)]
pub(super) struct Interactive {
    last: Option<Instant>,
    before: Option<Instant>,
}

impl Interactive {
    /// Takes note of a chunk that was cut from a stream.
    pub(super) fn on_cut(&mut self, now: Instant, role: ChannelRole, length: usize) {
        if role == ChannelRole::Express && length <= SMALL {
            self.before = self.last.replace(now);
        }
    }

    /// True if a channel has so much bulk in flight on a slow link that more of it would only stand
    /// in the link's queue, where interactive data has to go. `shortest`: the shortest round-trip
    /// time of any link. `in_flight`: bytes written that the peer's kernel has not acknowledged,
    /// asked only when it matters.
    pub(super) fn restrains(
        &self,
        now: Instant,
        channel: &Channel,
        shortest: impl FnOnce() -> Duration,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        if !self.goes_on(now) {
            return false;
        }
        let Some(enough) = fills_path(channel) else {
            return false;
        };
        let length = channel.path().min_rtt().unwrap_or_default();
        length < shortest() + DETOUR && in_flight() > enough
    }

    /// Returns the size of chunks for a channel where `size` is configured: on a slow link a chunk
    /// of several packets would be a queue by itself.
    pub(super) fn chunk_size(&self, now: Instant, channel: &Channel, size: ChunkSize) -> ChunkSize {
        match size {
            ChunkSize::Auto if is_slow_bulk(channel) && self.goes_on(now) => ChunkSize::Mtu,
            size => size,
        }
    }

    /// A single small chunk may be anything; two within a second are an exchange.
    fn goes_on(&self, now: Instant) -> bool {
        self.before.is_some_and(|at| now.since(at) <= RECENT)
    }
}

/// True for a bulk channel over a slow link.
fn is_slow_bulk(channel: &Channel) -> bool {
    let rate = channel.path().rate();
    channel.role() == ChannelRole::Bulk && rate > Rate::ZERO && rate <= SLOW
}

/// Returns the bytes in flight, ahead of another segment, that fill the path and a little of its
/// queue; `None` if the link is not slow, or has no queue now. The variation of the round-trip time
/// is the path's own, and no queue.
///
/// The rate is the latest one: the highest ever would be an idle moment's on a fresh connection,
/// and the rate of a channel that is held back says nothing of the highest.
fn fills_path(channel: &Channel) -> Option<ByteCount> {
    let path = channel.path();
    let kernel = path.latest();
    let queue = QUEUE + kernel.rtt_variation;
    let young = kernel.delivered.is_some_and(|delivered| delivered < YOUNG);
    let none = if young { queue } else { SHORT_QUEUE };
    if !is_slow_bulk(channel) || path.delay().standing_queue() <= none {
        return None;
    }
    let shortest = path.min_rtt().unwrap_or_default();
    let rate = path.rate().min(kernel.delivery_rate);
    let enough = rate * (shortest + queue);
    Some(enough.max(FEW) - SEGMENT)
}

/// One segment.
const SMALL: usize = 1400;
const RECENT: Duration = Duration::from_secs(1);
/// At a higher rate a queue of a hundred packets is gone in half a second.
const SLOW: Rate = Rate::from_bits_per_second(2_000_000);
/// Queue that bulk may build in a link.
const QUEUE: Duration = Duration::from_millis(30);
/// A shorter queue is gone before the next packet, at the rates in question.
const SHORT_QUEUE: Duration = Duration::from_millis(10);
/// Segments before which a quick link may look slow, and its jitter like a queue.
const YOUNG: u64 = 20;
const SEGMENT: ByteCount = ByteCount::new(1448);
/// One segment in flight and one behind it.
const FEW: ByteCount = ByteCount::new(2 * 1448);

#[cfg(test)]
mod tests {
    use hawser_path::KernelSample;
    use hawser_types::{ChannelId, LinkIndex};

    use super::*;
    use crate::channel::ChannelSpec;
    use crate::side::Side;

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
            begun_by: Side::Client,
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
        let full = fills_path(&channel(rate, 400));
        assert_eq!(full, Some(rate * Duration::from_millis(80) - SEGMENT));
        let slower = Rate::from_bits_per_second(80_000);
        let least = fills_path(&channel(slower, 400));
        assert_eq!(least, Some(FEW - SEGMENT));
    }

    #[test]
    fn what_came_last_counts_and_not_what_once_came() {
        let mut channel = channel(Rate::from_bits_per_second(1_600_000), 400);
        let rate = Rate::from_bits_per_second(800_000);
        let sample = KernelSample {
            delivery_rate: rate,
            app_limited: true,
            ..*channel.path().latest()
        };
        channel.on_sample(at(110), sample);
        assert!(channel.path().rate() > rate);
        let full = fills_path(&channel);
        assert_eq!(full, Some(rate * Duration::from_millis(80) - SEGMENT));
    }

    #[test]
    fn without_a_queue_and_on_fast_links_nothing_is_full() {
        let slow = Rate::from_bits_per_second(800_000);
        assert_eq!(fills_path(&channel(slow, 10)), None);
        let fast = Rate::from_bits_per_second(8_000_000);
        assert_eq!(fills_path(&channel(fast, 400)), None);
        let mut young = channel(slow, 20);
        assert!(fills_path(&young).is_some());
        let sample = KernelSample {
            delivered: Some(YOUNG - 1),
            ..*young.path().latest()
        };
        young.on_sample(at(110), sample);
        assert_eq!(fills_path(&young), None);
    }

    #[test]
    fn chunks_of_slow_links_are_one_segment_while_something_interactive_goes_on() {
        let mut interactive = Interactive::default();
        let slow = channel(Rate::from_bits_per_second(800_000), 400);
        let fast = channel(Rate::from_bits_per_second(8_000_000), 400);
        let auto = ChunkSize::Auto;
        assert_eq!(interactive.chunk_size(at(100), &slow, auto), auto);
        for millis in [80, 100] {
            interactive.on_cut(at(millis), ChannelRole::Express, 64);
        }
        assert_eq!(interactive.chunk_size(at(100), &slow, auto), ChunkSize::Mtu);
        assert_eq!(interactive.chunk_size(at(100), &fast, auto), auto);
        let fixed = ChunkSize::Fixed(ByteCount::new(4000));
        assert_eq!(interactive.chunk_size(at(100), &slow, fixed), fixed);
    }
}
