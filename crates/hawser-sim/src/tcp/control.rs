//! Congestion control: what both kinds are told, and what they set.

use std::time::Duration;

use hawser_scenario::Congestion;
use hawser_types::Instant;
use rand::rngs::SmallRng;

use super::bbr::Bbr;
use super::cubic::Cubic;
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

#[derive(Debug)]
pub(super) enum Control {
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

impl Control {
    pub(super) fn new(kind: Congestion, rng: SmallRng) -> Self {
        match kind {
            Congestion::Cubic => Self::Cubic(Cubic::default()),
            Congestion::Bbr => Self::Bbr(Box::new(Bbr::new(rng))),
        }
    }

    pub(super) fn kind(&self) -> Congestion {
        match self {
            Self::Cubic(_) => Congestion::Cubic,
            Self::Bbr(_) => Congestion::Bbr,
        }
    }

    pub(super) fn on_established(&mut self, now: Instant, rtt: Duration, window: &mut Window) {
        if let Self::Bbr(bbr) = self {
            bbr.on_established(now, rtt, window);
        }
    }

    /// Whether samples count as limited by the application because it holds back itself.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self, Self::Bbr(bbr) if bbr.holds_back())
    }

    /// Whether it sets the window in every phase by itself, rather than by RFC 6937.
    pub(super) fn is_sovereign(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    pub(super) fn on_progress(&mut self, progress: &Progress, window: &mut Window) {
        match self {
            Self::Cubic(cubic) => cubic.on_progress(progress, window),
            Self::Bbr(bbr) => bbr.on_progress(progress, window),
        }
    }

    /// A loss was found: the threshold for what follows.
    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        match self {
            Self::Cubic(cubic) => cubic.threshold(window),
            Self::Bbr(bbr) => {
                bbr.save_window(window);
                window.threshold
            }
        }
    }

    pub(super) fn on_timeout(&mut self) {
        match self {
            Self::Cubic(cubic) => cubic.reset(),
            Self::Bbr(bbr) => bbr.on_timeout(),
        }
    }

    /// The loss was none.
    pub(super) fn on_undo(&mut self) {
        if let Self::Bbr(bbr) = self {
            bbr.on_undo();
        }
    }

    /// A segment leaves while nothing is in flight.
    pub(super) fn on_restart(
        &mut self,
        now: Instant,
        app_limited: bool,
        last_sent: Instant,
        window: &mut Window,
    ) {
        match self {
            Self::Cubic(cubic) => cubic.on_restart(now, last_sent),
            Self::Bbr(bbr) if app_limited => bbr.on_restart(now, window),
            Self::Bbr(_) => {}
        }
    }

    /// The lowest round-trip time that BBR goes by.
    pub(super) fn bbr_min_rtt(&self) -> Option<Duration> {
        match self {
            Self::Cubic(_) => None,
            Self::Bbr(bbr) => bbr.min_rtt(),
        }
    }
}

/// Segments that may leave before anything is known. Source: RFC 6928.
pub(super) const INITIAL_WINDOW: u32 = 10;
