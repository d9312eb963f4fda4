use std::sync::Arc;
use std::time::Duration;

use hawser_path::{KnownLink, LinkLoss, Segments};
use hawser_sched::connection::LinkView;
use hawser_types::{Instant, Link, Rate};

use super::charges::Charges;
use super::estimates::Estimates;
use super::health::{Health, Reachability};
use super::link_counters::{LinkCounters, Reading};

/// Knowledge about one link.
#[derive(Debug)]
pub(crate) struct LinkRecord {
    link: Arc<Link>,
    /// Time when the link appeared.
    since: Instant,
    reachability: Reachability,
    estimates: Estimates,
    loss: LinkLoss,
    charges: Charges,
    /// Identity of its network; `None` until it was looked up.
    network: Option<String>,
    counters: LinkCounters,
}

impl LinkRecord {
    pub(crate) fn new(link: Arc<Link>, since: Instant) -> Self {
        Self {
            link,
            since,
            reachability: Reachability::new(),
            estimates: Estimates::default(),
            loss: LinkLoss::default(),
            charges: Charges::default(),
            network: None,
            counters: LinkCounters::default(),
        }
    }

    pub(crate) const fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Sets the current properties of the same link.
    pub(crate) fn set_link(&mut self, link: Arc<Link>) {
        self.link = link;
    }

    pub(crate) const fn estimates(&self) -> &Estimates {
        &self.estimates
    }

    pub(crate) const fn estimates_mut(&mut self) -> &mut Estimates {
        &mut self.estimates
    }

    pub(crate) const fn charges(&self) -> &Charges {
        &self.charges
    }

    pub(crate) const fn parts_mut(&mut self) -> (&mut Estimates, &mut Charges) {
        (&mut self.estimates, &mut self.charges)
    }

    pub(crate) const fn loss(&self) -> &LinkLoss {
        &self.loss
    }

    pub(crate) const fn health(&self) -> Health {
        self.reachability.health()
    }

    /// Returns the answers to connections over the link.
    pub(crate) const fn reachability(&self) -> &Reachability {
        &self.reachability
    }

    /// True if the link is known to have received a packet since `then`.
    pub(crate) fn was_heard_since(&self, then: Instant) -> bool {
        self.reachability.was_heard_since(then)
    }

    /// Records that the far end answered or sent data at `at`.
    pub(crate) fn on_answer(&mut self, at: Instant, latency: Option<Duration>) {
        self.reachability.on_answer(at);
        if let Some(latency) = latency {
            self.estimates.on_round_trip(latency);
        }
    }

    /// Records that a connection was not answered within `waited`, while another link was.
    pub(crate) fn on_miss(&mut self, now: Instant, waited: Duration) {
        self.estimates.on_unanswered(waited);
        self.reachability.on_miss(now);
    }

    /// Records that a connection started at `since` and a parallel second one were not answered
    /// within `waited`, while another link was answered instead. Counts as two misses, unless the
    /// link received a packet since then or appeared later.
    pub(crate) fn on_silence(&mut self, now: Instant, since: Instant, waited: Duration) {
        if self.since <= since && !self.reachability.was_heard_since(since) {
            self.estimates.on_unanswered(waited);
            self.reachability.on_miss(now);
            self.reachability.on_miss(now);
        }
    }

    pub(crate) fn on_segments(&mut self, now: Instant, before: Segments, after: Segments) {
        self.loss.on_segments(now, before, after);
    }

    pub(crate) const fn set_portal(&mut self, portal: bool) {
        self.reachability.set_portal(portal);
    }

    /// True if the link is suspect and due for a trial. The caller must try it then; the next trial
    /// is later.
    pub(crate) fn take_trial(&mut self, now: Instant) -> bool {
        self.reachability.take_trial(now)
    }

    /// Returns the link in the form that policies use, with these rates.
    pub(crate) fn view(&self, [up, down]: [Rate; 2]) -> LinkView {
        LinkView {
            link: self.link.index,
            up,
            down,
            latency: self.estimates.latency(),
            load: self.charges.load(),
        }
    }

    pub(crate) fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Attaches the link to `network`, and recalls `known` about it there.
    pub(crate) fn attach(&mut self, now: Instant, network: String, known: Option<&KnownLink>) {
        if self
            .network
            .as_ref()
            .is_some_and(|before| *before != network)
        {
            (self.estimates, self.loss) = (Estimates::default(), LinkLoss::default());
        }
        if let Some(known) = known {
            self.estimates.recall(now, known);
        }
        self.network = Some(network);
    }

    /// True if a queue alone explains that an answer took this long. The link then delivers the
    /// data of other connections, more slowly than when it is empty; queues grow faster than the
    /// estimate follows.
    pub(crate) fn is_only_slow(&self, now: Instant, waited: Duration) -> bool {
        let is_sound = self.health() == Health::Sound;
        let is_alive = is_sound && self.was_heard_since(now - ALIVE);
        let lowest = self.estimates.lowest_latency().unwrap_or_default();
        let has_queue = self.estimates.latency() > lowest.saturating_mul(2);
        let allowed = self.estimates.expected().saturating_mul(2).min(MOST_SLOW);
        is_alive && has_queue && waited < allowed
    }

    pub(crate) const fn counters_mut(&mut self) -> &mut LinkCounters {
        &mut self.counters
    }

    /// Records the interface's counters.
    pub(crate) fn on_reading(&mut self, reading: Reading) {
        self.counters.on_reading(&mut self.estimates, reading);
    }
}

/// A link that received a packet within this time still works.
const ALIVE: Duration = Duration::from_millis(500);
/// Longest wait for a connection, whatever the queue.
pub(crate) const MOST_SLOW: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_with_a_long_queue_is_waited_for_as_long_as_it_delivers() {
        let ms = Duration::from_millis;
        let at = |count: u64| Instant::ZERO + ms(count);
        let mut record = LinkRecord::new(crate::testing::link("a"), Instant::ZERO);
        record.on_answer(at(1000), Some(ms(40)));
        assert!(!record.is_only_slow(at(1100), ms(50)), "it has no queue");
        for _ in 0..50 {
            record.estimates_mut().on_round_trip(ms(5000));
        }
        assert_eq!(record.estimates().patience(), ms(2000));
        assert!(record.is_only_slow(at(1500), ms(9000)));
        assert!(
            !record.is_only_slow(at(1500), ms(11_000)),
            "later than that"
        );
        assert!(
            !record.is_only_slow(at(1501), ms(2000)),
            "nothing comes any more"
        );
    }
}
