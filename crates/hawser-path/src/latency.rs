use std::time::Duration;

/// How soon a link answers, smoothed over the connections on it.
///
/// A link that carries nothing has no queue, so what it showed under load is forgotten then: else
/// one that was avoided since it was slow would never show that it is not.
///
/// Source: RFC 6298 §2 (the two gains).
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkLatency {
    smoothed: Duration,
    deviation: Duration,
    /// Of the empty link.
    lowest: Duration,
    /// Nothing was on the link since the last sample.
    is_empty: bool,
}

impl LinkLatency {
    /// A round trip took so long.
    pub fn on_sample(&mut self, rtt: Duration) {
        if self.smoothed.is_zero() {
            (self.smoothed, self.deviation, self.lowest) = (rtt, rtt / 2, rtt);
            self.is_empty = false;
            return;
        }
        let difference = self.smoothed.abs_diff(rtt);
        self.deviation = self.deviation - self.deviation / 4 + difference / 4;
        if std::mem::take(&mut self.is_empty) {
            // Nothing but the link itself delayed this one; if it was more, the link may have
            // changed.
            self.lowest = rtt.min(self.lowest - self.lowest / 8 + rtt / 8);
            self.smoothed = rtt;
        } else {
            self.lowest = self.lowest.min(rtt);
            self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
        }
    }

    /// An answer takes longer than this.
    pub fn on_lower_bound(&mut self, rtt: Duration) {
        if rtt > self.smoothed {
            self.on_sample(rtt);
        }
    }

    /// The link carries nothing.
    pub fn on_empty(&mut self) {
        self.smoothed = self.lowest;
        self.is_empty = true;
    }

    /// Takes in the round trip of the empty link from an earlier run, if none was measured yet.
    pub fn recall(&mut self, lowest: Duration) {
        if self.smoothed.is_zero() && lowest <= MOST_RECALLED {
            self.on_sample(lowest);
            self.is_empty = true;
        }
    }

    /// Returns the round-trip time of the empty link; `None` while unknown.
    pub fn lowest(&self) -> Option<Duration> {
        Some(self.lowest).filter(|lowest| !lowest.is_zero())
    }

    /// Returns the present round-trip time, queues included; zero while unknown.
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// How much a round trip differs from that; zero while unknown.
    pub fn deviation(&self) -> Duration {
        self.deviation
    }
}

/// More is no round trip of an empty link.
const MOST_RECALLED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn samples_are_smoothed() {
        let mut latency = LinkLatency::default();
        assert_eq!(latency.smoothed(), Duration::ZERO);
        latency.on_sample(ms(80));
        assert_eq!((latency.smoothed(), latency.deviation()), (ms(80), ms(40)));
        latency.on_sample(ms(160));
        assert_eq!((latency.smoothed(), latency.deviation()), (ms(90), ms(50)));
    }

    #[test]
    fn an_empty_link_is_as_quick_as_it_ever_was() {
        let mut latency = LinkLatency::default();
        latency.on_empty();
        assert_eq!(latency.smoothed(), Duration::ZERO);
        latency.on_sample(ms(48));
        for _ in 0..100 {
            latency.on_sample(ms(2000));
        }
        assert!(latency.smoothed() > ms(1990));
        latency.on_empty();
        assert_eq!(latency.smoothed(), ms(48));
    }

    #[test]
    fn what_is_recalled_gives_way_to_what_is_seen() {
        let mut latency = LinkLatency::default();
        latency.recall(Duration::MAX);
        assert_eq!(
            (latency.smoothed(), latency.lowest()),
            (Duration::ZERO, None)
        );
        latency.recall(ms(40));
        assert_eq!(
            (latency.smoothed(), latency.lowest()),
            (ms(40), Some(ms(40)))
        );
        latency.on_sample(ms(200));
        assert_eq!(latency.smoothed(), ms(200));
        latency.recall(ms(10));
        assert_eq!(latency.smoothed(), ms(200));
    }

    #[test]
    fn a_way_that_has_become_longer_is_learnt() {
        let mut latency = LinkLatency::default();
        latency.on_sample(ms(48));
        latency.on_empty();
        latency.on_sample(ms(128));
        assert_eq!(latency.smoothed(), ms(128));
        latency.on_empty();
        assert_eq!(latency.smoothed(), ms(58));
    }

    #[test]
    fn an_answer_that_has_not_come_yet_counts_for_what_it_has_taken() {
        let mut latency = LinkLatency::default();
        latency.on_sample(ms(100));
        latency.on_lower_bound(ms(50));
        assert_eq!(latency.smoothed(), ms(100));
        latency.on_lower_bound(ms(900));
        assert_eq!(latency.smoothed(), ms(200));
    }
}
