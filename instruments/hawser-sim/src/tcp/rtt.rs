use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::Instant;

/// Round-trip times as Linux smooths them.
///
/// Source: RFC 6298 with the changes of Linux `tcp_rtt_estimator`: the deviation falls slowly when
/// the time falls, and never counts for less than 200 ms in the time-out.
#[derive(Debug, Default)]
pub(super) struct RttEstimator {
    /// Smoothed, in nanoseconds; 0 before the first sample.
    smoothed: u64,
    deviation: u64,
    deviation_max: u64,
    variation: u64,
    /// The sequence number that ends the present round for the variation.
    round_end: u64,
    /// Lowest times with their moments, rising from the front.
    lowest: VecDeque<(Instant, Duration)>,
}

impl RttEstimator {
    /// Takes in a sample. `una` and `next` mark rounds.
    pub(super) fn on_sample(&mut self, now: Instant, sample: Duration, una: u64, next: u64) {
        self.note_lowest(now, sample);
        let measured = sample.as_nanos() as u64;
        if self.smoothed == 0 {
            self.smoothed = measured.max(1);
            self.deviation = measured / 2;
            self.variation = self.deviation.max(MIN_VARIATION);
            self.deviation_max = self.variation;
            self.round_end = next;
            return;
        }
        let error = measured as i64 - self.smoothed as i64;
        self.smoothed = (self.smoothed as i64 + error / 8).max(1) as u64;
        // A falling time should not raise the time-out.
        let step = if error < 0 {
            let over = error.unsigned_abs() as i64 - self.deviation as i64;
            if over > 0 { over / 32 } else { over / 4 }
        } else {
            (error - self.deviation as i64) / 4
        };
        self.deviation = (self.deviation as i64 + step).max(0) as u64;
        let fourfold = self.deviation * 4;
        if fourfold > self.deviation_max {
            self.deviation_max = fourfold;
            self.variation = self.variation.max(fourfold);
        }
        if una > self.round_end {
            if self.deviation_max < self.variation {
                self.variation -= (self.variation - self.deviation_max) / 4;
            }
            self.round_end = next;
            self.deviation_max = MIN_VARIATION;
        }
    }

    /// Smoothed; `None` before the first sample.
    pub(super) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed > 0).then(|| Duration::from_nanos(self.smoothed))
    }

    /// Mean deviation.
    pub(super) fn deviation(&self) -> Duration {
        Duration::from_nanos(self.deviation)
    }

    /// The lowest of the last five minutes.
    pub(super) fn lowest(&self) -> Option<Duration> {
        self.lowest.front().map(|(_, rtt)| *rtt)
    }

    /// The retransmission time-out before any back-off.
    pub(super) fn timeout(&self) -> Duration {
        match self.smoothed {
            0 => FIRST_TIMEOUT,
            smoothed => Duration::from_nanos(smoothed + self.variation),
        }
    }

    fn note_lowest(&mut self, now: Instant, sample: Duration) {
        while self.lowest.back().is_some_and(|(_, rtt)| *rtt >= sample) {
            self.lowest.pop_back();
        }
        self.lowest.push_back((now, sample));
        while let Some((at, _)) = self.lowest.front()
            && now.since(*at) > LOWEST_WINDOW
        {
            self.lowest.pop_front();
        }
        if self.lowest.len() > MAX_LOWEST {
            // The middle matters least: the front is the answer, the back the next one.
            self.lowest.remove(1);
        }
    }
}

const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// `TCP_RTO_MIN`.
pub(super) const MIN_VARIATION: u64 = 200_000_000;
/// `net.ipv4.tcp_min_rtt_wlen`.
const LOWEST_WINDOW: Duration = Duration::from_secs(300);
const MAX_LOWEST: usize = 8;
