//! Restraint of bulk on a link that has carried next to nothing yet.

use hawser_types::ByteCount;
use hawser_wire::ChannelRole;

use super::Channels;
use crate::channel::Channel;

impl Channels {
    /// True if the next bulk record would be too much for a link whose channels are fresh.
    /// `in_flight`: bytes written to the channel that the peer's kernel has not acknowledged, asked
    /// only when it matters.
    ///
    /// A link's channels begin together as one connection does: with a window of ten segments,
    /// which grows by two for each one that arrives. Otherwise each channel has a window of its
    /// own, and unsent chunks behind it. On a slow link that takes seconds, in which the reader
    /// waits for it, or its queue drops it.
    pub(crate) fn overruns_fresh_link(
        &self,
        channel: &Channel,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        if channel.role() != ChannelRole::Bulk || channel.is_association() {
            return false;
        }
        let (mut arrived, mut beside) = (ByteCount::ZERO, ByteCount::ZERO);
        for other in self.of_link(channel.link()) {
            arrived += ByteCount::new(other.outbound().arrived());
            if other.id() != channel.id() {
                beside += ByteCount::new(other.outbound().not_arrived());
            }
        }
        arrived < KNOWN && beside + in_flight() >= FIRST_WINDOW + arrived + arrived
    }
}

/// Bytes that a fresh connection may send at once: ten segments. Source: RFC 6928.
const FIRST_WINDOW: ByteCount = ByteCount::new(10 * 1448);
/// After so much the rate of a link is measured, and the kernel has found its window.
const KNOWN: ByteCount = ByteCount::new(32 * 1024);

#[cfg(test)]
mod tests {
    use hawser_path::KernelSample;
    use hawser_types::{ChannelId, Instant, LinkIndex};

    use super::*;
    use crate::channel::ChannelSpec;
    use crate::side::Side;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A link with a bulk channel (1) and an express channel (0), which has `in_flight` bytes.
    fn link(in_flight: u64) -> Channels {
        let mut channels = Channels::default();
        for (id, role) in [(0, ChannelRole::Express), (1, ChannelRole::Bulk)] {
            channels.insert(Channel::new(ChannelSpec {
                begun_by: Side::Client,
                id: ChannelId::new(id),
                role,
                link: LinkIndex::new(1),
                records: 0,
                segment_size: Some(1448),
            }));
        }
        let express = channels.get_mut(ChannelId::new(0)).unwrap();
        express.on_record(at(0), in_flight, None);
        channels
    }

    fn overruns(channels: &Channels, id: u32, in_flight: u64) -> bool {
        let channel = channels.get(ChannelId::new(id)).unwrap();
        let in_flight = || ByteCount::new(in_flight);
        channels.overruns_fresh_link(channel, in_flight)
    }

    fn express_brought(channels: &mut Channels, bytes: u64) {
        let express = channels.get_mut(ChannelId::new(0)).unwrap();
        let unacknowledged = ByteCount::new(express.outbound().not_arrived() - bytes);
        let sample = KernelSample {
            unacknowledged,
            ..KernelSample::default()
        };
        express.on_sample(at(50), sample);
    }

    #[test]
    fn channels_of_a_fresh_link_have_one_first_window_together() {
        let channels = link(11_540);
        assert!(!overruns(&channels, 1, 2900));
        assert!(overruns(&channels, 1, 2940));
        assert!(!overruns(&channels, 0, 20_000), "express goes on");
    }

    #[test]
    fn the_window_grows_by_two_segments_for_each_that_arrives() {
        let mut channels = link(11_540);
        express_brought(&mut channels, 4000);
        assert!(!overruns(&channels, 1, 14_900));
        assert!(overruns(&channels, 1, 14_940));
    }

    #[test]
    fn a_link_that_has_carried_something_leaves_it_to_the_kernel() {
        let mut channels = link(500_000);
        express_brought(&mut channels, KNOWN.as_u64() - 1);
        assert!(overruns(&channels, 1, 0));
        express_brought(&mut channels, 1);
        assert!(!overruns(&channels, 1, 500_000));
    }
}
