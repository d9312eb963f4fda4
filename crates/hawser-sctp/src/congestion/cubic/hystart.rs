use std::time::Duration;

use hawser_types::Instant;

/// HyStart++: ends slow start when the round-trip time rises, before anything is lost.
///
/// Source: RFC 9406 §4.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HyStart {
    /// Start of the round, which ends when a packet sent after it is acknowledged.
    round_began: Instant,
    last: Option<Duration>,
    current: Option<Duration>,
    samples: u32,
    css: Option<ConservativeSlowStart>,
    over: bool,
}

/// Conservative slow start (CSS), to see whether the rise persists.
#[derive(Clone, Copy, Debug)]
struct ConservativeSlowStart {
    baseline: Duration,
    rounds: u32,
}

impl HyStart {
    pub(super) fn on_rtt(&mut self, now: Instant, sent: Instant, rtt: Duration) {
        if sent >= self.round_began {
            self.next_round(now);
        }
        let current = self.current.map_or(rtt, |lowest| lowest.min(rtt));
        self.current = Some(current);
        self.samples = self.samples.saturating_add(1);
        let Some(last) = self.last.filter(|_| self.samples >= SAMPLES) else {
            return;
        };
        match self.css {
            None if current >= last + (last / 8).clamp(MIN_RISE, MAX_RISE) => {
                self.css = Some(ConservativeSlowStart {
                    baseline: current,
                    rounds: 0,
                });
            }
            Some(css) if current < css.baseline => self.css = None,
            _ => {}
        }
    }

    /// Tells whether slow start is over.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the divisor of the window's growth.
    pub(super) fn divisor(&self) -> f64 {
        if self.css.is_some() { 4.0 } else { 1.0 }
    }

    fn next_round(&mut self, now: Instant) {
        self.round_began = now;
        self.last = self.current.take();
        self.samples = 0;
        if let Some(css) = &mut self.css {
            css.rounds += 1;
            self.over |= css.rounds >= CSS_ROUNDS;
        }
    }
}

const SAMPLES: u32 = 8;
const MIN_RISE: Duration = Duration::from_millis(4);
const MAX_RISE: Duration = Duration::from_millis(16);
const CSS_ROUNDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs one round of ten samples; rounds last a second.
    fn round(hystart: &mut HyStart, number: u64, rtt: u64) {
        let sent = Instant::ZERO + Duration::from_secs(number);
        for _ in 0..10 {
            let now = sent + Duration::from_millis(500);
            hystart.on_rtt(now, sent, Duration::from_millis(rtt));
        }
    }

    #[test]
    fn a_rise_that_stays_ends_slow_start_after_five_careful_rounds() {
        let mut hystart = HyStart::default();
        (1..5).for_each(|n| round(&mut hystart, n, 40));
        assert_eq!(hystart.divisor(), 1.0);
        round(&mut hystart, 5, 46);
        assert_eq!(hystart.divisor(), 4.0);
        (6..10).for_each(|n| round(&mut hystart, n, 50));
        assert!(!hystart.is_over());
        round(&mut hystart, 10, 50);
        assert!(hystart.is_over());
    }

    #[test]
    fn a_rise_that_passes_does_not() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 1, 40);
        round(&mut hystart, 2, 50);
        assert_eq!(hystart.divisor(), 4.0);
        (3..20).for_each(|n| round(&mut hystart, n, 41));
        assert!(!hystart.is_over() && hystart.divisor() == 1.0);
    }
}
