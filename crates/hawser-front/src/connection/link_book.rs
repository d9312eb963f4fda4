use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_path::{Capacity, KnownLink, LinkLatency};
use hawser_sched::connection::{LinkView, Load};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::health::Record;

/// What is known of one link.
#[derive(Debug)]
pub(super) struct LinkBook {
    pub(super) link: Arc<Link>,
    pub(super) record: Record,
    pub(super) up: Capacity,
    pub(super) down: Capacity,
    pub(super) latency: LinkLatency,
    /// What tells the network that it is attached to from others; `None` while nobody has looked.
    pub(super) network: Option<String>,
    /// What the connections on it have still to carry.
    pub(super) load: Load,
    /// Real-time connections among those.
    pub(super) calls: u32,
    /// Connections placed on it so far.
    pub(super) opened: u64,
}

impl LinkBook {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            record: Record::new(),
            up: Capacity::default(),
            down: Capacity::default(),
            latency: LinkLatency::default(),
            network: None,
            load: Load::default(),
            calls: 0,
            opened: 0,
        }
    }

    /// The link as policies see it, where it counts for these rates.
    pub(super) fn view(&self, [up, down]: [Rate; 2]) -> LinkView {
        LinkView {
            link: LinkIndex::new(self.link.index),
            up,
            down,
            latency: self.latency.smoothed(),
            load: self.load,
        }
    }

    /// Takes over what was known of it in an earlier run.
    pub(super) fn recall(&mut self, now: Instant, known: &KnownLink) {
        for (capacity, known) in [(&mut self.up, known.up), (&mut self.down, known.down)] {
            if let Some(known) = known {
                capacity.recall(now, known);
            }
        }
        if let Some(latency) = known.latency {
            self.latency.recall(latency);
        }
    }

    /// Nothing is known any more of what it can do.
    pub(super) fn forget(&mut self) {
        (self.up, self.down) = (Capacity::default(), Capacity::default());
        self.latency = LinkLatency::default();
    }

    /// How long to wait for an answer before trying another link too: as long as a retransmission
    /// timer would, since most answers come before, and within the bounds that RFC 8305 §8 has for
    /// another address.
    pub(super) fn patience(&self) -> Duration {
        let smoothed = self.latency.smoothed();
        if smoothed.is_zero() {
            return UNKNOWN_PATIENCE;
        }
        let deviation = self.latency.deviation().saturating_mul(4);
        let expected = smoothed.saturating_add(deviation);
        expected.clamp(MIN_PATIENCE, MAX_PATIENCE)
    }

    /// Learns from a connection that has moved so much since it was begun.
    pub(super) fn handle_end(&mut self, now: Instant, moved: [ByteCount; 2], span: Duration) {
        let [up, down] = moved;
        self.up.on_transfer(now, up, span);
        self.down.on_transfer(now, down, span);
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
        let mut book = LinkBook::new(super::super::decision::tests::link("a"));
        assert_eq!(book.patience(), ms(250));
        for _ in 0..50 {
            book.latency.on_sample(ms(10));
        }
        assert_eq!(book.patience(), ms(100));
        for _ in 0..50 {
            book.latency.on_sample(ms(600));
        }
        assert!((ms(600)..ms(700)).contains(&book.patience()));
    }

    #[test]
    fn an_answer_that_has_not_come_yet_makes_the_next_wait_longer() {
        let mut book = LinkBook::new(super::super::decision::tests::link("a"));
        book.latency.on_sample(ms(100));
        let before = book.patience();
        for _ in 0..4 {
            book.latency.on_lower_bound(ms(400));
        }
        assert!(book.patience() > before);
    }
}
