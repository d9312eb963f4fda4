//! The congestion control of a connection.

use std::time::Duration;

use hawser_scenario::Congestion;
use hawser_types::Instant;
use rand::rngs::SmallRng;

use super::bbr::Bbr;
use super::cubic::Cubic;
use super::window::{Progress, Window};

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
