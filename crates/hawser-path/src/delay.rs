use std::time::Duration;

use hawser_types::Instant;

use crate::window::Extreme;

/// The round-trip time of the path without any queue, and what stands in its queues now.
///
/// The lowest round-trip time is remembered until something contradicts it. A path that is nearly
/// empty and still slower does so: after ten seconds of that the path itself has changed.
/// While it is full nothing can be said, so that a standing queue never passes for the path's
/// length, until it is five minutes old.
#[derive(Clone, Debug, Default)]
pub struct Delay {
    lowest: Extreme<Duration>,
    unloaded: Extreme<Duration>,
    unloaded_since: Option<Instant>,
    smoothed: Duration,
    samples: u32,
}

impl Delay {
    /// Takes in a smoothed round-trip time. `loaded`: enough was in flight to fill the path, so
    /// that a queue of our own may be part of it.
    pub fn on_sample(&mut self, now: Instant, rtt: Duration, loaded: bool) {
        if rtt.is_zero() {
            return;
        }
        self.smoothed = rtt;
        self.samples = self.samples.saturating_add(1);
        self.on_lowest(now, rtt);
        self.lowest.expire(now, MAX_AGE);
        if loaded {
            self.unloaded_since = None;
            return;
        }
        if self.unloaded_since.is_none() {
            self.unloaded.clear();
        }
        let since = *self.unloaded_since.get_or_insert(now);
        self.unloaded.push(now, rtt, |a, b| a < b);
        self.unloaded.expire(now, UNLOADED_WINDOW);
        let lowest_seen = self.lowest.best().map_or(now, |(at, _)| at);
        if now.since(since.max(lowest_seen)) >= UNLOADED_WINDOW {
            self.lowest = self.unloaded.clone();
        }
    }

    /// Takes in a single round-trip time that may be the lowest.
    pub fn on_lowest(&mut self, now: Instant, rtt: Duration) {
        self.lowest.push(now, rtt, |a, b| a < b);
    }

    /// The round-trip time of the empty path, as far as it is known.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.lowest.best().map(|(_, rtt)| rtt)
    }

    /// Returns what the queues on the path add to the round-trip time now, own or others'; smoothed
    /// as the round-trip time is. Zero while unknown.
    pub fn standing_queue(&self) -> Duration {
        self.min_rtt()
            .map_or(Duration::ZERO, |min| self.smoothed.saturating_sub(min))
    }

    /// How far [`Delay::min_rtt`] can be trusted, from 0 to 1: 0.5 with eight samples, less as the
    /// lowest grows old, down to nothing after five minutes.
    pub fn confidence(&self, now: Instant) -> f64 {
        self.lowest.best().map_or(0.0, |(at, _)| {
            let samples = f64::from(self.samples);
            let age = now.since(at).as_secs_f64() / MAX_AGE.as_secs_f64();
            samples / (samples + FEW) * (1.0 - age).max(0.0)
        })
    }
}

/// For how long a path is slower than it was, although nearly empty, before that is its length. The
/// window of BBR's filter for the same (ACM Queue 14(5), 2016).
const UNLOADED_WINDOW: Duration = Duration::from_secs(10);
/// Window of the kernel's own filter by default (`net.ipv4.tcp_min_rtt_wlen`).
const MAX_AGE: Duration = Duration::from_secs(300);
const FEW: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn at(value: u64) -> Instant {
        Instant::ZERO + ms(value)
    }

    #[test]
    fn what_is_above_the_lowest_is_the_standing_queue() {
        let mut delay = Delay::default();
        assert_eq!((delay.min_rtt(), delay.standing_queue()), (None, ms(0)));
        delay.on_sample(at(0), ms(20), false);
        delay.on_sample(at(100), ms(75), true);
        assert_eq!(delay.min_rtt(), Some(ms(20)));
        assert_eq!(delay.standing_queue(), ms(55));
        delay.on_lowest(at(110), ms(18));
        assert_eq!(delay.standing_queue(), ms(57));
    }

    #[test]
    fn a_full_path_never_takes_its_own_queue_for_its_length() {
        let mut delay = Delay::default();
        delay.on_sample(at(0), ms(20), false);
        for n in 1..2900 {
            delay.on_sample(at(n * 100), ms(80), true);
        }
        assert_eq!(delay.standing_queue(), ms(60));
        delay.on_sample(at(301_000), ms(80), true);
        assert_eq!(delay.standing_queue(), ms(0));
    }

    #[test]
    fn an_empty_path_that_stays_slower_has_become_longer() {
        let mut delay = Delay::default();
        delay.on_sample(at(0), ms(20), false);
        for n in 1..100 {
            delay.on_sample(at(n * 100), ms(40), false);
        }
        assert_eq!(delay.min_rtt(), Some(ms(20)));
        delay.on_sample(at(10_100), ms(41), false);
        assert_eq!(delay.min_rtt(), Some(ms(40)));
    }

    #[test]
    fn emptiness_counts_from_its_beginning_only() {
        let mut delay = Delay::default();
        delay.on_sample(at(0), ms(20), false);
        for n in 0..400 {
            // Full for most of each five seconds.
            delay.on_sample(at(n * 100), ms(60), n % 50 > 5);
        }
        assert_eq!(delay.min_rtt(), Some(ms(20)));
    }

    #[test]
    fn confidence_grows_with_samples_and_fades_with_age() {
        let mut delay = Delay::default();
        assert_eq!(delay.confidence(at(0)), 0.0);
        for _ in 0..8 {
            delay.on_sample(at(0), ms(20), false);
        }
        assert!((delay.confidence(at(0)) - 0.5).abs() < 0.01);
        assert!((delay.confidence(at(150_000)) - 0.25).abs() < 0.01);
        assert_eq!(delay.confidence(at(400_000)), 0.0);
    }
}
