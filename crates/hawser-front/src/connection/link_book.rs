use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_path::Capacity;
use hawser_sched::connection::{LinkView, Load};
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::health::Record;

/// What is known of one link.
#[derive(Debug)]
pub(super) struct LinkBook {
    pub(super) link: Arc<Link>,
    pub(super) record: Record,
    pub(super) up: Capacity,
    pub(super) down: Capacity,
    pub(super) latency: Latency,
    /// What the connections on it have still to carry.
    pub(super) load: Load,
    /// Real-time connections among those.
    pub(super) calls: u32,
    /// Connections placed on it so far.
    pub(super) opened: u64,
}

/// The round-trip time of a link, smoothed over its connections.
///
/// Source: RFC 6298 §2 (the two gains).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latency {
    smoothed: Duration,
    deviation: Duration,
}

impl LinkBook {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            record: Record::new(),
            up: Capacity::default(),
            down: Capacity::default(),
            latency: Latency::default(),
            load: Load::default(),
            calls: 0,
            opened: 0,
        }
    }

    pub(super) fn view(&self) -> LinkView {
        LinkView {
            link: LinkIndex::new(self.link.index),
            up: self.up.rate().unwrap_or_default(),
            down: self.down.rate().unwrap_or_default(),
            latency: self.latency.smoothed,
            load: self.load,
        }
    }

    /// Learns from a connection that has moved so much since it was begun.
    pub(super) fn handle_end(&mut self, now: Instant, moved: [ByteCount; 2], span: Duration) {
        let [up, down] = moved;
        self.up.on_transfer(now, up, span);
        self.down.on_transfer(now, down, span);
    }
}

impl Latency {
    pub(super) fn on_sample(&mut self, rtt: Duration) {
        if self.smoothed.is_zero() {
            (self.smoothed, self.deviation) = (rtt, rtt / 2);
            return;
        }
        let difference = self.smoothed.abs_diff(rtt);
        self.deviation = self.deviation - self.deviation / 4 + difference / 4;
        self.smoothed = self.smoothed - self.smoothed / 8 + rtt / 8;
    }

    /// An answer takes longer than this.
    pub(super) fn on_lower_bound(&mut self, rtt: Duration) {
        if rtt > self.smoothed {
            self.on_sample(rtt);
        }
    }

    /// How long to wait for an answer before trying another link too: as long as a retransmission
    /// timer would, since most answers come before, and within the bounds that RFC 8305 §8 has for
    /// another address.
    pub(super) fn patience(&self) -> Duration {
        if self.smoothed.is_zero() {
            return UNKNOWN_PATIENCE;
        }
        let expected = self
            .smoothed
            .saturating_add(self.deviation.saturating_mul(4));
        expected.clamp(MIN_PATIENCE, MAX_PATIENCE)
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
        let mut latency = Latency::default();
        assert_eq!(latency.patience(), ms(250));
        for _ in 0..50 {
            latency.on_sample(ms(10));
        }
        assert_eq!(latency.patience(), ms(100));
        for _ in 0..50 {
            latency.on_sample(ms(600));
        }
        assert!((ms(600)..ms(700)).contains(&latency.patience()));
    }

    #[test]
    fn an_answer_that_has_not_come_yet_makes_the_next_wait_longer() {
        let mut latency = Latency::default();
        latency.on_sample(ms(100));
        let before = latency.patience();
        latency.on_lower_bound(ms(50));
        assert_eq!(latency.patience(), before);
        for _ in 0..4 {
            latency.on_lower_bound(ms(400));
        }
        assert!(latency.patience() > before);
    }
}
