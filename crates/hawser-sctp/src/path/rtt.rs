use std::time::Duration;

use hawser_types::Instant;

use crate::AssociationConfig;

/// Round-trip time and retransmission time-out of one path.
///
/// Source: RFC 9260 §6.3 (α = 1/8, β = 1/4, RTO = SRTT + 4·RTTVAR, doubled with each time-out).
#[derive(Clone, Debug)]
pub(crate) struct RttEstimator {
    smoothed: Option<Duration>,
    variation: Duration,
    latest: Duration,
    /// Minimum of the present period, and of the one before.
    lowest: [Option<Duration>; 2],
    period_began: Instant,
    backoffs: u32,
    initial: Duration,
    min: Duration,
    max: Duration,
}

impl RttEstimator {
    pub(crate) fn new(config: &AssociationConfig) -> Self {
        Self {
            smoothed: None,
            variation: Duration::ZERO,
            latest: Duration::ZERO,
            lowest: [None; 2],
            period_began: Instant::ZERO,
            backoffs: 0,
            initial: config.rto_initial,
            min: config.rto_min,
            max: config.rto_max.max(config.rto_min),
        }
    }

    /// Handles the answer to a heartbeat or to a chunk sent once, after `rtt`. Ends any back-off.
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration) {
        let rtt = rtt.clamp(SHORTEST, LONGEST);
        self.backoffs = 0;
        self.latest = rtt;
        self.note_lowest(now, rtt);
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.variation = rtt / 2;
            return;
        };
        self.variation = self.variation - self.variation / 4 + smoothed.abs_diff(rtt) / 4;
        self.smoothed = Some(smoothed - smoothed / 8 + rtt / 8);
    }

    /// Forgets shorter round trips than this one.
    pub(crate) fn renew_min(&mut self, now: Instant, shortest: Duration) {
        self.lowest = [Some(shortest), None];
        self.period_began = now;
    }

    /// Doubles [`Self::rto`] after a time-out.
    pub(crate) fn back_off(&mut self) {
        self.backoffs = (self.backoffs + 1).min(MAX_BACKOFFS);
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Returns the mean deviation; zero before the first sample.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// Returns the last sample; zero before the first.
    pub(crate) fn latest(&self) -> Duration {
        self.latest
    }

    /// Returns the minimum of the last one to two minutes: the round-trip time without a queue.
    pub(crate) fn min(&self) -> Option<Duration> {
        self.lowest.into_iter().flatten().min()
    }

    /// Returns the retransmission time-out, with back-off.
    pub(crate) fn rto(&self) -> Duration {
        self.rto_without_backoff()
            .saturating_mul(1 << self.backoffs)
            .min(self.max)
    }

    /// Returns the retransmission time-out without back-off.
    pub(crate) fn rto_without_backoff(&self) -> Duration {
        self.smoothed.map_or(self.initial, |smoothed| {
            (smoothed + (self.variation * 4).max(GRANULARITY)).clamp(self.min, self.max)
        })
    }

    /// Returns the time that `more` time-outs after the first one last by the specification's
    /// defaults, or by this path's RTO if it is longer. Source: RFC 9260 §6.3.3, §16.
    pub(crate) fn failure_delay(&self, more: u32) -> Duration {
        failure_delay(more, self.rto_without_backoff(), self.max)
    }

    fn note_lowest(&mut self, now: Instant, rtt: Duration) {
        let [current, _] = self.lowest;
        if current.is_none() || now.since(self.period_began) > PERIOD {
            self.lowest = [Some(rtt), current];
            self.period_began = now;
        } else {
            self.lowest[0] = current.map(|lowest| lowest.min(rtt));
        }
    }
}

/// Returns the time that `more` time-outs after the first one last, starting with this RTO and
/// doubling up to `most`.
pub(crate) fn failure_delay(more: u32, rto: Duration, most: Duration) -> Duration {
    let mut wait = rto.max(STANDARD_MIN);
    let (mut silence, mut left) = (Duration::ZERO, more.saturating_add(1));
    let most = most.max(wait);
    while left > 0 && wait < most {
        silence += wait;
        wait *= 2;
        left -= 1;
    }
    silence.saturating_add(most.saturating_mul(left))
}

/// Minimum sample: a clock that stands still must not cause divisions by zero.
const SHORTEST: Duration = Duration::from_micros(1);
const LONGEST: Duration = Duration::from_secs(600);
const GRANULARITY: Duration = Duration::from_millis(1);
const PERIOD: Duration = Duration::from_secs(60);
const MAX_BACKOFFS: u32 = 16;
/// RTO.Min of the specification.
const STANDARD_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn at(value: u64) -> Instant {
        Instant::ZERO + ms(value)
    }

    fn estimator() -> RttEstimator {
        RttEstimator::new(&AssociationConfig {
            rto_min: ms(10),
            ..AssociationConfig::default()
        })
    }

    #[test]
    fn samples_are_smoothed_and_their_spread_counts_four_times() {
        let mut rtt = estimator();
        assert_eq!((rtt.smoothed(), rtt.rto()), (None, ms(1000)));
        rtt.on_sample(at(0), ms(80));
        assert_eq!(rtt.rto(), ms(80 + 4 * 40));
        rtt.on_sample(at(10), ms(160));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Some(ms(90)), ms(50)));
        assert_eq!((rtt.rto(), rtt.latest()), (ms(290), ms(160)));
    }

    #[test]
    fn each_timeout_doubles_the_wait_up_to_its_bound_until_a_sample_comes() {
        let mut rtt = estimator();
        rtt.on_sample(at(0), ms(100));
        rtt.back_off();
        rtt.back_off();
        assert_eq!(rtt.rto(), ms(1200));
        (0..100).for_each(|_| rtt.back_off());
        assert_eq!(rtt.rto(), Duration::from_secs(60));
        rtt.on_sample(at(10), ms(100));
        assert!(rtt.rto() < ms(300));
    }

    /// The time-outs are 1, 2, 4, 8, 16 and 32 seconds, then a minute each, though the first one
    /// here comes after 10 ms.
    #[test]
    fn a_path_is_given_up_no_sooner_than_by_the_specifications_defaults() {
        let mut rtt = estimator();
        rtt.on_sample(at(0), ms(2));
        assert_eq!(rtt.failure_delay(5), Duration::from_secs(63));
        assert_eq!(rtt.failure_delay(10), Duration::from_secs(63 + 5 * 60));
        rtt.on_sample(at(0), Duration::from_secs(100));
        assert_eq!(rtt.failure_delay(1), Duration::from_secs(120));
        assert!(rtt.failure_delay(u32::MAX) > Duration::from_secs(1 << 32));
    }

    #[test]
    fn the_lowest_is_forgotten_when_the_way_has_become_longer() {
        let mut rtt = estimator();
        rtt.on_sample(at(0), ms(20));
        for second in 1..=61 {
            rtt.on_sample(at(second * 1000), ms(90));
        }
        assert_eq!(rtt.min(), Some(ms(20)));
        for second in 62..=130 {
            rtt.on_sample(at(second * 1000), ms(90));
        }
        assert_eq!(rtt.min(), Some(ms(90)));
    }

    #[test]
    fn odd_samples_do_no_harm() {
        let mut rtt = estimator();
        for sample in [Duration::ZERO, Duration::MAX, Duration::ZERO, ms(1)] {
            rtt.on_sample(at(0), sample);
            assert!(rtt.rto() >= ms(10) && rtt.rto() <= Duration::from_secs(60));
        }
    }
}
