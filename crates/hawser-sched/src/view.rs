use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate};

/// What a policy may know of one channel and the path below it, at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PathView {
    /// The channel that would carry the unit.
    pub channel: ChannelId,
    /// The link below it.
    pub link: LinkIndex,
    /// The kernel would send a unit that it is given now, rather than let it wait behind others.
    pub ready: bool,
    /// Silent against expectation: nothing new should be sent here while another path lives.
    pub suspect: bool,
    /// Smoothed round-trip time; zero until the first sample.
    pub rtt: Duration,
    /// The rate at which the path delivers; zero while unknown.
    pub rate: Rate,
    /// Bytes that were given to the channel and are not yet acknowledged by the peer's session.
    pub in_flight: ByteCount,
    /// The user's weight, 1 by default; only weighted policies look at it.
    pub weight: f64,
}

impl PathView {
    /// When the last byte of a unit of `size` given to this path now would arrive, counted from
    /// now: what is in flight drains first, then the unit crosses the path.
    pub fn arrival(&self, size: ByteCount) -> Duration {
        let drain = self
            .rate
            .time_for(self.in_flight + size)
            .unwrap_or_default();
        // What is in flight has been on its way for a while already: half a round trip of it is
        // propagation that the pipe hides, hence the larger of the two instead of their sum.
        drain.max(self.rtt / 2)
    }
}
