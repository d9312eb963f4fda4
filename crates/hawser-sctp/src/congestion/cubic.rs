mod hystart;

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use super::control::{Acknowledged, CongestionControl, Lost, MAX_WINDOW, initial_window, pace};
use hystart::HyStart;

/// CUBIC with fast convergence and the Reno-friendly region. Slow start ends when the round-trip
/// time rises. Packets are paced somewhat faster than one window in a round trip.
///
/// Source: RFC 9438, with HyStart++ (RFC 9406).
#[derive(Debug)]
pub(crate) struct Cubic {
    packet: f64,
    window: f64,
    threshold: f64,
    /// W_max.
    last_max: f64,
    epoch: Option<Epoch>,
    /// Time of the last reduction. Losses sent before it cause no other.
    recovery: Option<Instant>,
    /// State before the last reduction.
    before: Option<Before>,
    hystart: HyStart,
    smoothed: Duration,
    acknowledged: Instant,
}

/// State since the last reduction.
#[derive(Debug)]
struct Epoch {
    /// Start of the epoch; it moves on while the window is not used.
    began: Instant,
    /// Seconds to the plateau.
    k: f64,
    origin: f64,
    /// Reno's window for the same losses.
    reno: f64,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    window: f64,
    threshold: f64,
    last_max: f64,
}

impl Cubic {
    pub(crate) fn new(packet: ByteCount) -> Self {
        let packet = packet.as_u64().max(1);
        Self {
            packet: packet as f64,
            window: initial_window(packet) as f64,
            threshold: f64::MAX,
            last_max: 0.0,
            epoch: None,
            recovery: None,
            before: None,
            hystart: HyStart::default(),
            smoothed: Duration::ZERO,
            acknowledged: Instant::ZERO,
        }
    }

    fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn slow_start(&mut self, ack: &Acknowledged, bytes: f64) {
        if let Some(rtt) = ack.rtt {
            self.hystart.on_rtt(ack.now, ack.newest_sent, rtt);
        }
        if self.hystart.is_over() {
            self.threshold = self.window;
            return;
        }
        if ack.flight_before.as_u64() as f64 * 2.0 >= self.window {
            let grown = self.window + bytes / self.hystart.divisor();
            self.window = grown.min(self.threshold);
        }
    }

    fn avoid_congestion(&mut self, ack: &Acknowledged, bytes: f64) {
        let (packet, window, last_max) = (self.packet, self.window, self.last_max);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: ack.now,
            k: ((last_max - window).max(0.0) / packet / C).cbrt(),
            origin: last_max.max(window),
            reno: window,
        });
        // Grows on average as fast as Reno, which halves its window; above the old window as fast
        // as Reno itself.
        let alpha = if epoch.reno < last_max {
            3.0 * (1.0 - BETA) / (1.0 + BETA)
        } else {
            1.0
        };
        epoch.reno += alpha * packet * bytes / window;
        let elapsed = (ack.now.since(epoch.began) + self.smoothed).as_secs_f64();
        let offset = elapsed - epoch.k;
        let target = epoch.origin + C * offset * offset * offset * packet;
        let target = target.clamp(window, 1.5 * window);
        self.window += ((target - window) * bytes / window).min(bytes / 2.0);
        self.window = self.window.max(epoch.reno.min(1.5 * window));
    }

    fn reduce(&mut self, now: Instant) {
        self.before = Some(Before {
            window: self.window,
            threshold: self.threshold,
            last_max: self.last_max,
        });
        // Fast convergence: a flow that did not reach its old window leaves bandwidth to a new one.
        self.last_max = if self.window < self.last_max {
            self.window * (1.0 + BETA) / 2.0
        } else {
            self.window
        };
        self.window = (self.window * BETA).max(2.0 * self.packet);
        self.threshold = self.window;
        self.epoch = None;
        self.recovery = Some(now);
    }
}

impl CongestionControl for Cubic {
    fn window(&self) -> ByteCount {
        ByteCount::new(self.window as u64)
    }

    fn pacing(&self) -> Option<Rate> {
        let gain = if self.is_slow_start() { 2.0 } else { 1.25 };
        pace(self.window * gain, self.smoothed)
    }

    fn on_sent(&mut self, _: Instant, _: ByteCount, _: ByteCount) {}

    fn on_acknowledged(&mut self, ack: &Acknowledged) {
        self.smoothed = ack.smoothed_rtt;
        let bytes = (ack.bytes.as_u64() as f64).min(self.window);
        let recovers = self.recovery.is_some_and(|since| ack.newest_sent <= since);
        if recovers {
            // The window does not grow until packets sent after the reduction are acknowledged.
        } else if self.is_slow_start() {
            self.slow_start(ack, bytes);
        } else if ack.flight_before.as_u64() as f64 + 2.0 * self.packet > self.window {
            self.avoid_congestion(ack, bytes);
        } else if let Some(epoch) = &mut self.epoch {
            // The epoch shifts while the window is not used.
            epoch.began = (epoch.began + ack.now.since(self.acknowledged)).min(ack.now);
        }
        self.window = self.window.min(MAX_WINDOW as f64);
        self.acknowledged = ack.now;
    }

    fn on_lost(&mut self, lost: &Lost) {
        if self.recovery.is_none_or(|since| lost.newest_sent > since) {
            self.reduce(lost.now);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        // One reduction for all data in flight, however often it is retransmitted.
        if self.window > self.packet {
            self.reduce(now);
        }
        self.window = self.packet;
        self.recovery = Some(now);
        self.hystart = HyStart::default();
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some(before) = self.before.take() {
            self.window = self.window.max(before.window);
            self.threshold = self.threshold.max(before.threshold);
            self.last_max = before.last_max;
            self.epoch = None;
        }
    }

    fn on_idle(&mut self, timeouts: u32) {
        // RFC 9438 §5.8 refers to RFC 7661: halve the window, down to the initial one.
        let least = (initial_window(self.packet as u64) as f64).min(self.window);
        self.threshold = self.threshold.max(self.window);
        self.window = (self.window * 0.5_f64.powi(timeouts.min(64) as i32)).max(least);
        self.epoch = None;
    }

    fn on_packet_size(&mut self, size: ByteCount) {
        self.packet = size.as_u64().max(1) as f64;
        self.window = self.window.max(self.packet);
    }
}

const BETA: f64 = 0.7;
/// In packets per second cubed.
const C: f64 = 0.4;
