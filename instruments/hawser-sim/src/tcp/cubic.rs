use std::time::Duration;

use hawser_types::Instant;

use super::window::{Phase, Progress, Window};

/// CUBIC with fast convergence, the Reno-friendly region and HyStart.
///
/// Source: RFC 9438; constants and the order of steps from Linux `net/ipv4/tcp_cubic.c`.
#[derive(Debug, Default)]
pub(super) struct Cubic {
    last_max: f64,
    epoch: Option<Epoch>,
    /// Window increase per this many segments acknowledged.
    count: f64,
    counted: f64,
    delay_min: Option<Duration>,
    hystart: HyStart,
    last_update: Option<(Instant, u32)>,
}

#[derive(Debug)]
struct Epoch {
    began: Instant,
    /// Seconds to the plateau.
    k: f64,
    origin: f64,
    reno: f64,
    acknowledged: f64,
}

#[derive(Debug, Default)]
struct HyStart {
    found: bool,
    round_began: Instant,
    round_end: Option<u64>,
    last_ack: Instant,
    lowest: Option<Duration>,
    samples: u32,
}

impl Cubic {
    pub(super) fn on_progress(&mut self, p: &Progress, window: &mut Window) {
        if let Some(rtt) = p.rtt {
            self.on_rtt(p, rtt, window);
        }
        if p.phase == Phase::Recovery || p.delivered_now == 0 || !p.window_limited {
            return;
        }
        let mut acknowledged = p.delivered_now;
        if window.is_slow_start() {
            let grown = (window.congestion + acknowledged).min(window.threshold);
            acknowledged -= grown - window.congestion;
            window.congestion = grown;
            if acknowledged == 0 {
                return;
            }
        }
        self.update(p.now, window.congestion, acknowledged);
        self.increase(window, acknowledged);
    }

    pub(super) fn threshold(&mut self, window: &Window) -> u32 {
        self.epoch = None;
        let now = f64::from(window.congestion);
        self.last_max = if now < self.last_max {
            now * (1.0 + BETA) / 2.0
        } else {
            now
        };
        ((now * BETA) as u32).max(2)
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    pub(super) fn on_restart(&mut self, now: Instant, last_sent: Instant) {
        // Time in which nothing was sent does not count.
        if let Some(epoch) = &mut self.epoch {
            let idle = now.since(last_sent);
            epoch.began = (epoch.began + idle).min(now);
        }
    }

    fn update(&mut self, now: Instant, congestion: u32, acknowledged: u32) {
        let cwnd = f64::from(congestion);
        let last_max = self.last_max;
        let epoch = self.epoch.get_or_insert_with(|| {
            let (k, origin) = if last_max <= cwnd {
                (0.0, cwnd)
            } else {
                (cube_root((last_max - cwnd) / C), last_max)
            };
            Epoch {
                began: now,
                k,
                origin,
                reno: cwnd,
                acknowledged: 0.0,
            }
        });
        epoch.acknowledged += f64::from(acknowledged);
        if let Some((at, window)) = self.last_update
            && window == congestion
            && now.since(at) <= UPDATE_EVERY
        {
            return;
        }
        self.last_update = Some((now, congestion));
        let elapsed = now.since(epoch.began) + self.delay_min.unwrap_or_default();
        let offset = elapsed.as_secs_f64() - epoch.k;
        let target = epoch.origin + C * offset * offset * offset;
        let mut count = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100.0 * cwnd
        };
        if last_max == 0.0 {
            count = count.min(20.0);
        }
        // The window that Reno would have.
        let delta = cwnd * (1.0 + BETA) / (3.0 * (1.0 - BETA));
        let steps = (epoch.acknowledged / delta).floor();
        epoch.acknowledged -= steps * delta;
        epoch.reno += steps;
        if epoch.reno > cwnd {
            count = count.min(cwnd / (epoch.reno - cwnd));
        }
        self.count = count.max(2.0);
    }

    fn increase(&mut self, window: &mut Window, acknowledged: u32) {
        if self.counted >= self.count {
            self.counted = 0.0;
            window.congestion += 1;
        }
        self.counted += f64::from(acknowledged);
        if self.counted >= self.count {
            let steps = (self.counted / self.count).floor();
            self.counted -= steps * self.count;
            window.congestion += steps as u32;
        }
    }

    fn on_rtt(&mut self, p: &Progress, rtt: Duration, window: &mut Window) {
        // Shortly after a loss the queue still shows.
        if let Some(epoch) = &self.epoch
            && p.now.since(epoch.began) < Duration::from_secs(1)
        {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |old| old.min(rtt));
        self.delay_min = Some(delay_min);
        if !self.hystart.found
            && window.is_slow_start()
            && window.congestion >= HYSTART_FROM
            && self.hystart.finds(p, rtt, delay_min)
        {
            window.threshold = window.congestion;
        }
    }
}

impl HyStart {
    fn finds(&mut self, p: &Progress, rtt: Duration, delay_min: Duration) -> bool {
        if self.round_end.is_none_or(|end| p.una > end) {
            self.round_began = p.now;
            self.last_ack = p.now;
            self.round_end = Some(p.next);
            self.lowest = None;
            self.samples = 0;
        }
        if p.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = p.now;
            // Half, since nothing paces these segments.
            if p.now.since(self.round_began) > delay_min / 2 {
                self.found = true;
            }
        }
        let lowest = self.lowest.map_or(rtt, |old| old.min(rtt));
        self.lowest = Some(lowest);
        if self.samples < DELAY_SAMPLES {
            self.samples += 1;
        } else if lowest > delay_min + (delay_min / 8).clamp(MIN_RISE, MAX_RISE) {
            self.found = true;
        }
        self.found
    }
}

/// By Newton's method: the same bits on every machine.
fn cube_root(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let mut root = value.max(1.0);
    for _ in 0..64 {
        root = (2.0 * root + value / (root * root)) / 3.0;
    }
    root
}

const BETA: f64 = 717.0 / 1024.0;
/// In segments per second cubed.
const C: f64 = 0.4;
const UPDATE_EVERY: Duration = Duration::from_micros(31_250);
const HYSTART_FROM: u32 = 16;
const TRAIN_GAP: Duration = Duration::from_millis(2);
const DELAY_SAMPLES: u32 = 8;
const MIN_RISE: Duration = Duration::from_millis(4);
const MAX_RISE: Duration = Duration::from_millis(16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cube_root_is_one() {
        for value in [0.001, 0.5, 1.0, 27.0, 12_345.0, 1e9] {
            let root = cube_root(value);
            assert!((root * root * root / value - 1.0).abs() < 1e-12, "{value}");
        }
    }
}
