//! How BBR takes a connection up: a fresh one, or one that another control has had.

use std::time::Duration;

use hawser_types::Instant;

use super::{Bbr, GAIN_SHIFT, HIGH_GAIN, MIN_PACING, SEGMENT, Window};

impl Bbr {
    /// The handshake has measured a round trip.
    pub(in crate::tcp) fn on_established(
        &mut self,
        now: Instant,
        rtt: Duration,
        window: &mut Window,
    ) {
        self.min_rtt = Some((rtt, now));
        self.seen_rtt = true;
        self.cycle_began = now;
        self.aggregation.epoch = now;
        window.pacing = Some(first_pacing(window.congestion, rtt, SEGMENT));
    }

    /// It takes over a connection that has carried data.
    pub(in crate::tcp) fn take_over(
        &mut self,
        now: Instant,
        (lowest, smoothed): (Duration, Duration),
        delivered: u64,
        window: &mut Window,
    ) {
        window.threshold = u32::MAX;
        self.on_established(now, smoothed, window);
        self.min_rtt = Some((lowest, now));
        self.next_round_delivered = delivered;
    }
}

/// The rate before any is measured: the window in one round trip, times the gain of the start.
pub(super) fn first_pacing(congestion: u32, rtt: Duration, segment: u32) -> u64 {
    let micros = (rtt.as_micros() as u64).max(1);
    let rate = u64::from(congestion) * u64::from(segment) * 1_000_000 / micros;
    (((rate * HIGH_GAIN) >> GAIN_SHIFT) * 99 / 100).max(MIN_PACING)
}
