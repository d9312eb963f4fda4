//! Answers over links, and their consequences.

use std::time::Duration;

use hawser_types::{Instant, LinkIndex};

use super::{Director, FlowId, LinkRecord, Over};
use crate::health::Health;

impl Director {
    /// Records a connection answered at `at`, `latency` after its start if that was measured.
    pub fn handle_connected(
        &mut self,
        now: Instant,
        id: FlowId,
        at: Instant,
        latency: Option<Duration>,
    ) {
        let Some(flow) = self.flows.get_mut(id) else {
            return;
        };
        flow.on_connected(at);
        let over = flow.over();
        self.stories.answer_try(flow.told());
        if let (Some(gateway), Some(site)) = (&mut self.exits.gateway, flow.site()) {
            gateway.sites_mut().note(site, over.by(), now);
        }
        self.exits.on_opened(over);
        match over {
            Over::Link(link) => {
                self.opened += 1;
                self.with_link(link, |record| record.on_answer(at, latency));
            }
            Over::Gateway => {
                if let Some(latency) = latency {
                    self.exits.on_round_trip(over, latency);
                }
            }
        }
    }

    /// Records the kernel's round-trip time of a connection.
    pub fn handle_round_trip(&mut self, over: Over, rtt: Duration) {
        self.exits.on_round_trip(over, rtt);
    }

    /// Records an answer of the far end over `link`, either acceptance or refusal.
    pub fn handle_answer(&mut self, now: Instant, link: LinkIndex, latency: Option<Duration>) {
        self.with_link(link, |record| record.on_answer(now, latency));
    }

    /// Records that a connection over `link` was not answered within `waited`, while another link
    /// was answered instead.
    pub fn handle_miss(&mut self, now: Instant, link: LinkIndex, waited: Duration) {
        self.with_link(link, |record| record.on_miss(now, waited));
    }

    /// Records that a connection over `link`, started at `since`, and a parallel second one were
    /// not answered within `waited`, while another link was answered instead. Counts as two misses,
    /// unless the link received a packet since then or appeared later.
    pub fn handle_silence(
        &mut self,
        now: Instant,
        link: LinkIndex,
        since: Instant,
        waited: Duration,
    ) {
        self.with_link(link, |record| record.on_silence(now, since, waited));
    }

    /// Records that the gateway did not answer within `waited`, but a link did instead.
    pub fn handle_slow_gateway(&mut self, waited: Duration) {
        if let Some(gateway) = &mut self.exits.gateway {
            gateway.on_slow(waited);
        }
    }

    /// Counts a connection established on the first link, on another, or not at all (`None`).
    pub const fn handle_outcome(&mut self, is_first: Option<bool>) {
        match is_first {
            Some(true) => {}
            Some(false) => self.moved_over += 1,
            None => self.unanswered += 1,
        }
    }

    /// Sets whether a captive portal on the link answers in the name of other hosts.
    pub fn set_portal(&mut self, link: LinkIndex, portal: bool) {
        self.with_link(link, |record| record.set_portal(portal));
    }

    /// True if the link is known to have received a packet since `then`.
    pub fn was_heard_since(&self, link: LinkIndex, then: Instant) -> bool {
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.was_heard_since(then))
    }

    /// Returns how long to wait for connections over the link before it counts as silent; `None`
    /// for an unusable link.
    pub fn patience(&self, link: LinkIndex) -> Option<Duration> {
        let record = self.exits.links.get(link);
        record.map(|record| record.estimates().patience())
    }

    /// True if connection attempts on the link still have a chance.
    pub fn is_hopeful(&self, link: LinkIndex) -> bool {
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.health() == Health::Sound)
    }

    /// True if a queue alone explains a connection over the link that has waited this long for an
    /// answer.
    pub fn is_only_slow(&mut self, now: Instant, link: LinkIndex, waited: Duration) -> bool {
        self.sweep(now);
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.is_only_slow(now, waited))
    }

    /// Modifies a link's record, and logs a change of its state.
    fn with_link(&mut self, link: LinkIndex, act: impl FnOnce(&mut LinkRecord)) {
        let Some(record) = self.exits.links.get_mut(link) else {
            return;
        };
        let before = record.health();
        act(record);
        let after = record.health();
        if before != after {
            let link = record.link().name.as_str();
            tracing::info!(link, state = after.name(), "link health changed");
            self.is_changed = true;
        }
    }
}
