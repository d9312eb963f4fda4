//! Change of the congestion control on a live connection.

use hawser_scenario::Congestion;
use hawser_types::Instant;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::control::Control;
use super::send::Sender;

impl Sender {
    /// Changes the congestion control. Window, threshold and pacing stay as the other one left
    /// them.
    ///
    /// Source: Linux `tcp_reinit_congestion_control`.
    pub(super) fn set_congestion(&mut self, now: Instant, kind: Congestion) {
        if self.control.kind() == kind {
            return;
        }
        self.control = Control::new(kind, SmallRng::seed_from_u64(now.as_nanos()));
        let times = self.rtt.lowest().zip(self.rtt.smoothed());
        if let (Control::Bbr(bbr), Some(times)) = (&mut self.control, times) {
            bbr.take_over(now, times, self.rate.delivered, &mut self.window);
        }
    }

    /// Paces a window-based control on a connection that was paced before: by one window, with some
    /// to spare, in each round trip.
    ///
    /// Source: Linux `tcp_update_pacing_rate`.
    pub(super) fn pace_window(&mut self) {
        let (Some(_), Some(rtt)) = (self.window.pacing, self.rtt.smoothed()) else {
            return;
        };
        let window = u64::from(self.window.congestion.max(self.segments.len() as u32));
        let starts = self.window.congestion < self.window.threshold / 2;
        let percent = if starts { 200 } else { 120 };
        let micros = (rtt.as_micros() as u64).max(1);
        let rate = window * u64::from(self.segment) * 1_000_000 / micros;
        self.window.pacing = Some(rate * percent / 100);
    }
}
