use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_path::{Capacity, KnownLink, LinkLatency, LinkLoss};
use hawser_sched::connection::{LinkView, Load};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use super::health::{Health, Record};

/// What is known of one link.
#[derive(Debug)]
pub(super) struct LinkBook {
    pub(super) link: Arc<Link>,
    /// When the link came.
    pub(super) since: Instant,
    pub(super) record: Record,
    pub(super) up: Capacity,
    pub(super) down: Capacity,
    pub(super) latency: LinkLatency,
    pub(super) loss: LinkLoss,
    /// What tells the network that it is attached to from others; `None` while nobody has looked.
    pub(super) network: Option<String>,
    /// What the connections on it have still to carry.
    pub(super) load: Load,
    /// Real-time connections among those.
    pub(super) calls: u32,
    /// Connections placed on it so far.
    pub(super) opened: u64,
    /// What its interface had carried when a session began to keep it busy, or when that was last
    /// looked at.
    pub(super) shared: Option<(Instant, [ByteCount; 2])>,
}

impl LinkBook {
    pub(super) fn new(link: Arc<Link>) -> Self {
        Self {
            link,
            since: Instant::ZERO,
            record: Record::new(),
            up: Capacity::default(),
            down: Capacity::default(),
            latency: LinkLatency::default(),
            loss: LinkLoss::default(),
            network: None,
            load: Load::default(),
            calls: 0,
            opened: 0,
            shared: None,
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
        (self.latency, self.loss) = (LinkLatency::default(), LinkLoss::default());
    }

    /// How long to wait for an answer before trying another link too: as long as a retransmission
    /// timer would, since most answers come before, and within the bounds that RFC 8305 §8 has for
    /// another address.
    pub(super) fn patience(&self) -> Duration {
        match self.expected() {
            Duration::ZERO => UNKNOWN_PATIENCE,
            expected => expected.clamp(MIN_PATIENCE, MAX_PATIENCE),
        }
    }

    /// Whether nothing but a queue speaks against the link when an answer has been waited for so
    /// long: it carries what others have asked for, more slowly than when it is empty, and queues
    /// grow by more than the estimate follows.
    pub(super) fn is_only_slow(&self, now: Instant, waited: Duration) -> bool {
        let is_sound = self.record.health() == Health::Sound;
        let is_alive = is_sound && self.record.was_heard_since(now - ALIVE);
        let lowest = self.latency.lowest().unwrap_or_default();
        let has_queue = self.latency.smoothed() > lowest.saturating_mul(2);
        let allowed = self.expected().saturating_mul(2).min(MOST_SLOW);
        is_alive && has_queue && waited < allowed
    }

    /// When most answers have come; zero while nothing is known.
    fn expected(&self) -> Duration {
        let deviation = self.latency.deviation().saturating_mul(4);
        self.latency.smoothed().saturating_add(deviation)
    }

    /// Its interface has carried so much in all, sent and received. While a session keeps it busy,
    /// which may wait for its other end, it shows what it can do at least.
    pub(super) fn on_shared(&mut self, now: Instant, total: [ByteCount; 2], is_shared: bool) {
        let Some((since, before)) = self.shared.filter(|_| is_shared) else {
            self.shared = is_shared.then_some((now, total));
            return;
        };
        let span = now.since(since);
        if span >= SHARED_SPAN {
            let [up, down] = [total[0] - before[0], total[1] - before[1]];
            self.up.on_transfer(now, up, span);
            self.down.on_transfer(now, down, span);
            self.shared = Some((now, total));
        }
    }

    /// A connection has moved so much, sent and received, in this time.
    pub(super) fn handle_transfer(
        &mut self,
        now: Instant,
        [up, down]: [ByteCount; 2],
        span: Duration,
    ) {
        self.up.on_transfer(now, up, span);
        self.down.on_transfer(now, down, span);
    }
}

/// Long enough that a burst out of a queue is no rate.
const SHARED_SPAN: Duration = Duration::from_secs(2);
const UNKNOWN_PATIENCE: Duration = Duration::from_millis(250);
const MIN_PATIENCE: Duration = Duration::from_millis(100);
const MAX_PATIENCE: Duration = Duration::from_secs(2);
/// A link on which something was received so lately still leads somewhere.
const ALIVE: Duration = Duration::from_millis(500);
/// Nobody waits for longer, whatever the queue.
pub(super) const MOST_SLOW: Duration = Duration::from_secs(15);

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
    fn a_link_with_a_long_queue_is_waited_for_as_long_as_it_delivers() {
        let mut book = LinkBook::new(super::super::decision::tests::link("a"));
        let at = |count: u64| Instant::ZERO + ms(count);
        book.latency.on_sample(ms(40));
        book.record.handle_answer(at(1000));
        assert!(!book.is_only_slow(at(1100), ms(50)), "it has no queue");
        for _ in 0..50 {
            book.latency.on_sample(ms(5000));
        }
        assert_eq!(book.patience(), ms(2000));
        assert!(book.is_only_slow(at(1500), ms(9000)));
        assert!(!book.is_only_slow(at(1500), ms(11_000)), "later than that");
        assert!(
            !book.is_only_slow(at(1501), ms(2000)),
            "nothing comes any more"
        );
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
