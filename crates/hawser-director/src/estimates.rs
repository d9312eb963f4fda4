use std::time::Duration;

use hawser_path::{Capacity, KnownLink, KnownRate, LinkLatency};
use hawser_types::{ByteCount, Instant, Rate};

/// Measured rates and latency of a link or of the gateway. Pairs are for sending and receiving.
#[derive(Debug, Default)]
pub(crate) struct Estimates {
    rates: [Capacity; 2],
    latency: LinkLatency,
}

impl Estimates {
    /// Records a counter of sent bytes. `busy`: connections were continuously active since the last
    /// call.
    pub(crate) fn on_sent(&mut self, now: Instant, total: ByteCount, busy: bool) {
        self.rates[0].on_counter(now, total, busy);
    }

    /// The same for received bytes.
    pub(crate) fn on_received(&mut self, now: Instant, total: ByteCount, busy: bool) {
        self.rates[1].on_counter(now, total, busy);
    }

    /// Records one transfer's bytes and time: a lower bound of both rates.
    pub(crate) fn on_transfer(&mut self, now: Instant, moved: [ByteCount; 2], span: Duration) {
        for (rate, bytes) in self.rates.iter_mut().zip(moved) {
            rate.on_transfer(now, bytes, span);
        }
    }

    /// Records a measurement of one direction.
    pub(crate) fn on_probe(&mut self, now: Instant, up: bool, bytes: ByteCount, span: Duration) {
        let [sending, receiving] = &mut self.rates;
        let rate = if up { sending } else { receiving };
        rate.on_probe(now, bytes, span);
    }

    /// Records a round-trip time.
    pub(crate) fn on_round_trip(&mut self, rtt: Duration) {
        self.latency.on_sample(rtt);
    }

    /// Records that an answer did not arrive within `waited`.
    pub(crate) fn on_unanswered(&mut self, waited: Duration) {
        self.latency.on_lower_bound(waited);
    }

    /// Forgets queueing delays, because queues are empty.
    pub(crate) fn on_empty(&mut self) {
        self.latency.on_empty();
    }

    /// Loads the knowledge of an earlier run.
    pub(crate) fn recall(&mut self, now: Instant, known: &KnownLink) {
        for (rate, known) in self.rates.iter_mut().zip([known.up, known.down]) {
            if let Some(known) = known {
                rate.recall(now, known);
            }
        }
        if let Some(latency) = known.latency {
            self.latency.recall(latency);
        }
    }

    /// Returns measured rates; zero while unknown.
    pub(crate) fn rates(&self) -> [Rate; 2] {
        let rates = self.rates.each_ref().map(Capacity::rate);
        rates.map(Option::unwrap_or_default)
    }

    /// Returns the highest rates seen in this run or earlier ones.
    pub(crate) fn seen(&self) -> [Option<Rate>; 2] {
        self.rates.each_ref().map(Capacity::seen)
    }

    /// Returns the rates for decisions, with the given values for unknown ones.
    pub(crate) fn counts_for(&self, now: Instant, [up, down]: [Rate; 2]) -> [Rate; 2] {
        let [sending, receiving] = &self.rates;
        [sending.counts_for(now, up), receiving.counts_for(now, down)]
    }

    /// Returns the confidence in both rates, from 0 to 1.
    pub(crate) fn confidence(&self, now: Instant) -> [f64; 2] {
        self.rates.each_ref().map(|rate| rate.confidence(now))
    }

    /// Returns the rates learned in this run, with the time of each.
    pub(crate) fn learned(&self) -> [Option<(KnownRate, Instant)>; 2] {
        self.rates.each_ref().map(Capacity::learned)
    }

    /// Returns the smoothed round-trip time; zero while unknown.
    pub(crate) fn latency(&self) -> Duration {
        self.latency.smoothed()
    }

    /// Returns the lowest round-trip time.
    pub(crate) fn lowest_latency(&self) -> Option<Duration> {
        self.latency.lowest()
    }

    /// Returns the wait for an answer before another link is tried too: as long as a retransmission
    /// timer, because most answers arrive earlier, and within the bounds of RFC 8305 §8 for another
    /// address.
    pub(crate) fn patience(&self) -> Duration {
        match self.expected() {
            Duration::ZERO => UNKNOWN_PATIENCE,
            expected => expected.clamp(MIN_PATIENCE, MAX_PATIENCE),
        }
    }

    /// Returns the time within which most answers arrive; zero while unknown.
    pub(crate) fn expected(&self) -> Duration {
        let deviation = self.latency.deviation().saturating_mul(4);
        self.latency.smoothed().saturating_add(deviation)
    }
}

const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
const MIN_PATIENCE: Duration = Duration::from_millis(100);
const MAX_PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn patience_follows_the_latency_of_the_link() {
        let mut estimates = Estimates::default();
        assert_eq!(estimates.patience(), ms(250));
        for _ in 0..50 {
            estimates.on_round_trip(ms(10));
        }
        assert_eq!(estimates.patience(), ms(100));
        for _ in 0..50 {
            estimates.on_round_trip(ms(600));
        }
        assert!((ms(600)..ms(700)).contains(&estimates.patience()));
    }

    #[test]
    fn an_answer_that_has_not_come_yet_makes_the_next_wait_longer() {
        let mut estimates = Estimates::default();
        estimates.on_round_trip(ms(100));
        let before = estimates.patience();
        for _ in 0..4 {
            estimates.on_unanswered(ms(400));
        }
        assert!(estimates.patience() > before);
    }
}
