use std::time::Duration;

use hawser_types::Instant;

use crate::window::Extreme;

/// Changes of the delay of one direction, from stamps of two clocks.
///
/// `received − sent` is the delay plus an unknown offset, and drifts as one clock gains on the
/// other. Neither matters here: what counts is the distance from the lowest of the last half
/// minute, which is the queue, and the slope, from which the drift is taken off. The drift shows in
/// the lowest delays of successive ten seconds, since queues come and go and clocks do not.
///
/// Source: the lower envelope of delays against clock skew is Moon, Skelly and Towsley, *Estimation
/// and Removal of Clock Skew from Network Delay Measurements*, INFOCOM 1999; the median of slopes
/// is Theil's and Sen's.
#[derive(Clone, Debug, Default)]
pub struct OneWayDelay {
    /// Differences are counted from the first one, so that they keep their precision.
    origin: Option<(Instant, i128)>,
    lowest: Extreme<f64>,
    epochs: Epochs,
    line: Line,
    latest: f64,
}

/// Trend of the delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Seconds of delay gained in each second; negative while queues drain. 0.1 is a queue that
    /// grows by 100 ms in each second: a tenth more goes in than comes out.
    pub slope: f64,
    /// The share of the delay's variance that the slope explains, from 0 to 1: near 1 the delay
    /// really goes there, near 0 it only jitters.
    pub confidence: f64,
}

impl OneWayDelay {
    /// Takes in the stamps of one message: when it was `sent` by the peer's clock and `received`
    /// by ours. Messages may come out of order; what is older than the last second hardly counts.
    pub fn on_stamps(&mut self, sent: Instant, received: Instant) {
        let difference = i128::from(received.as_nanos()) - i128::from(sent.as_nanos());
        let (began, first) = *self.origin.get_or_insert((received, difference));
        let delay = (difference - first) as f64 / 1e9;
        let seconds = received.since(began).as_secs_f64();
        self.epochs.push(seconds, delay);
        let corrected = delay - self.epochs.skew() * seconds;
        self.latest = corrected;
        self.lowest.push(received, corrected, |a, b| a < b);
        self.lowest.expire(received, BASE_WINDOW);
        self.line.push(seconds, corrected);
    }

    /// Returns how far the latest message's delay is above the lowest of the last 30 s: the queue
    /// of that direction. `None` before the first message.
    pub fn queue(&self) -> Option<Duration> {
        let (_, lowest) = self.lowest.best()?;
        Some(Duration::from_secs_f64((self.latest - lowest).max(0.0)))
    }

    /// Returns the trend of the delay, over about the last second. `None` before there are enough
    /// messages to say.
    pub fn trend(&self) -> Option<Trend> {
        self.line.trend()
    }

    /// How fast the clocks drift apart, in seconds per second, positive when ours runs faster; zero
    /// until there is enough to tell, and never beyond ±400 ppm.
    pub fn skew(&self) -> f64 {
        self.epochs.skew()
    }
}

/// The lowest delay of each of the last epochs.
#[derive(Clone, Debug, Default)]
struct Epochs {
    /// When in its epoch the lowest was seen, and what it was; oldest first.
    lowest: [(f64, f64); EPOCHS],
    complete: usize,
    running: Option<(u64, f64, f64)>,
    skew: f64,
}

impl Epochs {
    fn push(&mut self, seconds: f64, delay: f64) {
        let epoch = (seconds / EPOCH) as u64;
        match &mut self.running {
            Some((current, at, lowest)) if *current == epoch => {
                if delay < *lowest {
                    (*at, *lowest) = (seconds, delay);
                }
            }
            running => {
                if let Some((_, at, lowest)) = running.replace((epoch, seconds, delay)) {
                    self.close(at, lowest);
                }
            }
        }
    }

    fn close(&mut self, at: f64, lowest: f64) {
        if self.complete == EPOCHS {
            self.lowest.rotate_left(1);
            self.complete -= 1;
        }
        self.lowest[self.complete] = (at, lowest);
        self.complete += 1;
        self.skew = self.median_slope().clamp(-MAX_SKEW, MAX_SKEW);
    }

    fn median_slope(&self) -> f64 {
        let known = &self.lowest[..self.complete];
        let mut slopes = [0.0; EPOCHS * (EPOCHS - 1) / 2];
        let mut count = 0;
        for (n, (at, lowest)) in known.iter().enumerate() {
            for (later, higher) in &known[n + 1..] {
                slopes[count] = (higher - lowest) / (later - at);
                count += 1;
            }
        }
        if count < MIN_SLOPES {
            return 0.0;
        }
        slopes[..count].sort_unstable_by(f64::total_cmp);
        slopes[count / 2]
    }

    fn skew(&self) -> f64 {
        self.skew
    }
}

/// A line through delays over time, in which what is older counts less.
#[derive(Clone, Debug, Default)]
struct Line {
    last: f64,
    weight: f64,
    /// Means of time (relative to `last`) and delay, then the products of their deviations.
    time: f64,
    delay: f64,
    time_time: f64,
    time_delay: f64,
    delay_delay: f64,
}

impl Line {
    fn push(&mut self, seconds: f64, delay: f64) {
        let passed = (seconds - self.last).max(0.0);
        self.last = self.last.max(seconds);
        let keep = (-passed / MEMORY).exp();
        self.time -= passed;
        self.weight = self.weight * keep + 1.0;
        self.time_time *= keep;
        self.time_delay *= keep;
        self.delay_delay *= keep;
        let (off_time, off_delay) = (seconds - self.last - self.time, delay - self.delay);
        self.time += off_time / self.weight;
        self.delay += off_delay / self.weight;
        let rest = 1.0 - 1.0 / self.weight;
        self.time_time += rest * off_time * off_time;
        self.time_delay += rest * off_time * off_delay;
        self.delay_delay += rest * off_delay * off_delay;
    }

    fn trend(&self) -> Option<Trend> {
        if self.weight < MIN_WEIGHT || self.time_time <= 0.0 {
            return None;
        }
        let explained = self.time_delay * self.time_delay / self.time_time;
        let confidence = if self.delay_delay > 0.0 {
            (explained / self.delay_delay).min(1.0)
        } else {
            1.0
        };
        let slope = self.time_delay / self.time_time;
        Some(Trend { slope, confidence })
    }
}

/// Time for which the lowest delay is remembered as that of the empty path.
const BASE_WINDOW: Duration = Duration::from_secs(30);
/// Seconds over which one lowest delay is taken.
const EPOCH: f64 = 10.0;
const EPOCHS: usize = 6;
/// Three epochs: with two, one queue that never drained would be a drift.
const MIN_SLOPES: usize = 3;
/// Quartz clocks are within 100 ppm; twice that between two, and as much again for bad ones.
const MAX_SKEW: f64 = 400e-6;
/// Seconds after which a message counts 1/e.
const MEMORY: f64 = 1.0;
const MIN_WEIGHT: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds a message each 20 ms whose delay is `delay(t)` seconds; the peer's clock is off by
    /// some hours and slow by `skew`.
    fn feed(one_way: &mut OneWayDelay, from: f64, to: f64, skew: f64, delay: impl Fn(f64) -> f64) {
        let steps = ((to - from) / 0.02).round() as u32;
        for n in 0..steps {
            let sent = from + f64::from(n) * 0.02;
            let theirs = 20_000.0 + sent * (1.0 - skew);
            let instant = |seconds: f64| Instant::from_nanos((seconds * 1e9).round() as u64);
            one_way.on_stamps(instant(theirs), instant(100.0 + sent + delay(sent)));
        }
    }

    fn jitter(t: f64) -> f64 {
        // Up to 4 ms, without a pattern that a line could follow.
        ((t * 50.0).round() * 0.618).fract() * 0.004
    }

    #[test]
    fn a_queue_that_grows_shows_as_trend_and_as_queue_whatever_the_clocks_offset() {
        let mut one_way = OneWayDelay::default();
        assert_eq!((one_way.queue(), one_way.trend()), (None, None));
        feed(&mut one_way, 0.0, 3.0, 0.0, |t| 0.03 + jitter(t));
        let flat = one_way.trend().unwrap();
        assert!(
            flat.slope.abs() < 0.001 && flat.confidence < 0.1,
            "{flat:?}"
        );
        feed(&mut one_way, 3.0, 8.0, 0.0, |t| {
            0.03 + jitter(t) + (t - 3.0) * 0.05
        });
        let rising = one_way.trend().unwrap();
        assert!((rising.slope - 0.05).abs() < 0.01, "{rising:?}");
        assert!(rising.confidence > 0.8, "{rising:?}");
        let queue = one_way.queue().unwrap().as_secs_f64();
        assert!((queue - 0.25).abs() < 0.006, "{queue}");
        feed(&mut one_way, 8.0, 13.0, 0.0, |t| {
            0.03 + jitter(t) + (13.0 - t) * 0.05
        });
        assert!(one_way.trend().unwrap().slope < -0.03);
    }

    #[test]
    fn clocks_that_drift_apart_make_no_queue() {
        for skew in [150e-6, -150e-6] {
            let mut one_way = OneWayDelay::default();
            feed(&mut one_way, 0.0, 200.0, skew, |t| 0.03 + jitter(t));
            assert!((one_way.skew() - skew).abs() < 40e-6, "{}", one_way.skew());
            let queue = one_way.queue().unwrap().as_secs_f64();
            assert!(queue < 0.007, "{skew}: {queue}");
            assert!(one_way.trend().unwrap().slope.abs() < 0.002);
        }
    }

    #[test]
    fn a_queue_that_fills_once_is_no_drift() {
        let mut one_way = OneWayDelay::default();
        feed(&mut one_way, 0.0, 200.0, 0.0, |t| {
            let queue = if t > 150.0 { 0.08 } else { 0.0 };
            0.03 + queue + jitter(t)
        });
        assert!(one_way.skew().abs() <= MAX_SKEW);
        feed(&mut one_way, 200.0, 201.0, 0.0, |_| 0.12);
        assert!(one_way.queue().unwrap() >= Duration::from_millis(5));
    }

    #[test]
    fn stamps_from_the_far_past_and_future_do_not_panic() {
        let mut one_way = OneWayDelay::default();
        let far = Instant::from_nanos(u64::MAX);
        for (sent, received) in [
            (far, Instant::ZERO),
            (Instant::ZERO, far),
            (far, far),
            (Instant::ZERO, Instant::ZERO),
        ] {
            one_way.on_stamps(sent, received);
        }
        assert!(one_way.queue().is_some());
    }
}
