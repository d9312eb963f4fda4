use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate};

use crate::governor::Standing;

/// One channel and the path below it at one moment, as far as a policy may know.
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
    /// The round-trip time of the empty path; zero until the first sample.
    pub min_rtt: Duration,
    /// Mean deviation of the round-trip time; zero until the first sample.
    pub rtt_variation: Duration,
    /// Delay that queues on the path add to its round-trip time, those of others included.
    pub standing_queue: Duration,
    /// The rate at which the path delivers; zero while unknown.
    pub rate: Rate,
    /// Confidence that the rate is what the path can do, from 0 to 1.
    pub confidence: f64,
    /// Congestion window; zero while unknown.
    pub congestion_window: ByteCount,
    /// Bytes that were given to the channel and that its kernel had not sent at the last sample.
    pub kernel_backlog: ByteCount,
    /// Bytes that were given to the channel and are not yet acknowledged by the peer's session.
    pub in_flight: ByteCount,
    /// Time for which the peer should have acknowledged more of the data in flight, and has not;
    /// zero while it does. It is unknown when such a channel goes on.
    pub stalled: Duration,
    /// Bytes in flight on the link's other channels of all kinds: they share its queue.
    pub beside: ByteCount,
    /// The most payload that a chunk cut for this channel would have.
    pub chunk: ByteCount,
    /// The user's weight, 1 by default; only weighted policies look at it.
    pub weight: f64,
    /// Price of a gigabyte on this link, in a unit that is the same for all links; 0 is free, and
    /// stands where nothing is known.
    pub price: f64,
    /// Weight of the price against the throughput on this link, from 0 to 1; 0 by default.
    pub price_weight: f64,
    /// The user wants this link used ahead of others.
    pub preferred: bool,
    /// Permission of the user and the governor.
    pub standing: Standing,
    /// Links with the same number share a bottleneck.
    pub bottleneck: Option<u8>,
}

impl PathView {
    /// Returns the time until the last byte of a unit of `size` arrives that is given to this path
    /// now: the data in flight drains first, then the unit crosses the path.
    pub fn arrival(&self, size: ByteCount) -> Duration {
        let drain = self
            .rate
            .time_for(self.in_flight + size)
            .unwrap_or_default();
        // Bytes in flight have been on their way for a while already: half a round trip of it is
        // propagation that the pipe hides, hence the larger of the two instead of their sum.
        drain.max(self.rtt / 2)
    }

    /// Returns the rate in bytes a second; of a path that was never measured, what a new
    /// connection's window gives.
    pub(crate) fn rate_or_guess(&self) -> f64 {
        match self.rate.bytes_per_second() {
            0 => self.rate_by_window(),
            known => known as f64,
        }
    }

    /// The congestion window; where it is unknown, that of a new connection (RFC 6928).
    pub(crate) fn window(&self) -> f64 {
        let window = self.congestion_window.as_u64();
        if window == 0 { 14_480.0 } else { window as f64 }
    }

    /// The congestion window in each round trip, in bytes a second. Short round trips count as
    /// [`MIN_RTT`], so that a window promises no rate that was never seen.
    pub(crate) fn rate_by_window(&self) -> f64 {
        self.window() / self.rtt.as_secs_f64().max(MIN_RTT)
    }
}

impl Default for PathView {
    /// A channel of which nothing is known, and which is not ready.
    fn default() -> Self {
        Self {
            channel: ChannelId::default(),
            link: LinkIndex::default(),
            ready: false,
            suspect: false,
            rtt: Duration::ZERO,
            min_rtt: Duration::ZERO,
            rtt_variation: Duration::ZERO,
            standing_queue: Duration::ZERO,
            rate: Rate::ZERO,
            confidence: 0.0,
            congestion_window: ByteCount::ZERO,
            kernel_backlog: ByteCount::ZERO,
            in_flight: ByteCount::ZERO,
            stalled: Duration::ZERO,
            beside: ByteCount::ZERO,
            chunk: ByteCount::MAX,
            weight: 1.0,
            price: 0.0,
            price_weight: 0.0,
            preferred: false,
            standing: Standing::Full,
            bottleneck: None,
        }
    }
}

/// Seconds.
const MIN_RTT: f64 = 0.1;
