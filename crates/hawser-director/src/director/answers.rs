//! Answers over links, and what follows from them.

use std::time::Duration;

use hawser_types::{Instant, LinkIndex};

use super::{Director, FlowId, LinkRecord, Over};
use crate::health::Health;

impl Director {
    /// A connection was answered at `at`, `latency` after it was begun where that was measured.
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

    /// Takes in the kernel's round-trip time of a connection.
    pub fn handle_round_trip(&mut self, over: Over, rtt: Duration) {
        self.exits.on_round_trip(over, rtt);
    }

    /// The far end has answered over `link`, with an acceptance or a refusal.
    pub fn handle_answer(&mut self, now: Instant, link: LinkIndex, latency: Option<Duration>) {
        self.with_link(link, |record| record.on_answer(now, latency));
    }

    /// A connection over `link` was not answered within `waited`, and another link was answered in
    /// its place.
    pub fn handle_miss(&mut self, now: Instant, link: LinkIndex, waited: Duration) {
        self.with_link(link, |record| record.on_miss(now, waited));
    }

    /// A connection over `link`, begun at `since`, and a second one beside it were not answered
    /// within `waited`, while another link was answered in their place. That counts as two misses,
    /// unless something has come over the link since, or the link itself came later.
    pub fn handle_silence(
        &mut self,
        now: Instant,
        link: LinkIndex,
        since: Instant,
        waited: Duration,
    ) {
        self.with_link(link, |record| record.on_silence(now, since, waited));
    }

    /// The gateway had not answered within `waited`, and a link was in its place.
    pub fn handle_slow_gateway(&mut self, waited: Duration) {
        if let Some(gateway) = &mut self.exits.gateway {
            gateway.on_slow(waited);
        }
    }

    /// A connection came about on the link that was tried first, on another, or not at all.
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

    /// True if something has come over the link since `then`, as far as that was noticed.
    pub fn was_heard_since(&self, link: LinkIndex, then: Instant) -> bool {
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.was_heard_since(then))
    }

    /// Returns the time for which connections over the link are waited for before the link counts
    /// as silent; `None` for a link that cannot be used.
    pub fn patience(&self, link: LinkIndex) -> Option<Duration> {
        let record = self.exits.links.get(link);
        record.map(|record| record.estimates().patience())
    }

    /// True if connections that are being made on the link still have a chance.
    pub fn is_hopeful(&self, link: LinkIndex) -> bool {
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.health() == Health::Sound)
    }

    /// True if only a queue speaks against a connection that has waited so long for an answer over
    /// the link.
    pub fn is_only_slow(&mut self, now: Instant, link: LinkIndex, waited: Duration) -> bool {
        self.sweep(now);
        let record = self.exits.links.get(link);
        record.is_some_and(|record| record.is_only_slow(now, waited))
    }

    /// Acts on a link's record, and notes a change of its state.
    fn with_link(&mut self, link: LinkIndex, act: impl FnOnce(&mut LinkRecord)) {
        let Some(record) = self.exits.links.get_mut(link) else {
            return;
        };
        let before = record.health();
        act(record);
        let after = record.health();
        if before != after {
            let link = record.link().name.as_str();
            tracing::info!(link, state = after.name(), "a link's state changes");
            self.is_changed = true;
        }
    }
}
