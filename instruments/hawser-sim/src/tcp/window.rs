//! Inputs and outputs of congestion control.

use std::time::Duration;

use hawser_types::Instant;

use super::packet::SEGMENT;
use super::rate::Sample;

/// What congestion control sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Segments that may be in flight.
    pub(super) congestion: u32,
    /// Slow start ends here.
    pub(super) threshold: u32,
    /// Bytes of payload a second; `None`: segments leave as soon as the window allows.
    pub(super) pacing: Option<u64>,
}

impl Window {
    pub(super) fn is_slow_start(&self) -> bool {
        self.congestion < self.threshold
    }

    /// Segments that leave together when the connection is paced: about a millisecond's worth.
    ///
    /// Source: Linux `tcp_tso_autosize`, `bbr_min_tso_segs`.
    pub(super) fn burst(&self) -> u32 {
        let rate = self.pacing.unwrap_or(0);
        let least = if rate < 150_000 { 1 } else { 2 };
        let bytes = (rate >> 10).min(64_000);
        u32::try_from(bytes / u64::from(SEGMENT))
            .unwrap_or(least)
            .max(least)
    }
}

/// What a connection does about loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    /// Holes are filled by fast retransmission.
    Recovery,
    /// After a time-out.
    Loss,
}

/// What an acknowledgement means, as told to congestion control.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) now: Instant,
    pub(super) sample: Sample,
    /// Segments newly acknowledged, by range or cumulatively.
    pub(super) delivered_now: u32,
    pub(super) lost_now: u32,
    /// Segments in flight before, and after it.
    pub(super) in_flight_before: u32,
    pub(super) in_flight: u32,
    /// Segments delivered since the connection began.
    pub(super) delivered: u64,
    pub(super) delivered_at: Instant,
    pub(super) rtt: Option<Duration>,
    pub(super) smoothed_rtt: Option<Duration>,
    pub(super) phase: Phase,
    pub(super) una: u64,
    pub(super) next: u64,
    /// The window was used up lately.
    pub(super) window_limited: bool,
    /// The earliest time at which the next segment may leave.
    pub(super) departure: Instant,
    pub(super) segment: u32,
}

/// Segments that may leave before anything is known. Source: RFC 6928.
pub(super) const INITIAL_WINDOW: u32 = 10;
