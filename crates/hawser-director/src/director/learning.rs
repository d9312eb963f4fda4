//! Progress of open connections, and the loads, rates and demands derived from it.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::{KnownLink, LinkKey, Segments};
use hawser_sched::{DemandEstimate, DemandKey};
use hawser_types::{ByteCount, DefaultRoute, Instant, LinkIndex};

use super::{Director, FlowId, Over, Progress};
use crate::link_counters::Reading;

impl Director {
    /// True if loads are due for an update, before which the progress of all connections must be
    /// passed.
    pub fn wants_progress(&self, now: Instant) -> bool {
        now.since(self.swept) >= SWEEP_EVERY
    }

    /// Records the progress of a connection.
    pub fn handle_progress(&mut self, now: Instant, flow: FlowId, progress: &Progress) {
        let Some(flow) = self.flows.get_mut(flow) else {
            return;
        };
        let [up, down] = flow.on_progress(now, progress);
        if up + down == ByteCount::ZERO {
            return;
        }
        let over = flow.over();
        if let (Some(gateway), Some(site)) = (&mut self.exits.gateway, flow.site()) {
            let known = [flow.acknowledged(up), down];
            let sites = gateway.sites_mut();
            sites.on_moved(site, over.by(), now, [up, down], known);
        }
        let unacknowledged = up - flow.acknowledged(up);
        // The bytes of a session are counted there instead.
        let link = over.link().and_then(|link| self.exits.links.get_mut(link));
        let Some(record) = link else {
            return;
        };
        record.counters_mut().on_unacknowledged(unacknowledged);
        // Received bytes and acknowledgements arrived over this link.
        let heard = progress.heard.or((down > ByteCount::ZERO).then_some(now));
        if let Some(heard) = heard {
            record.on_answer(heard, None);
        }
        let name = &record.link().name;
        if self.moved.len() < MAX_NAMES || self.moved.contains_key(name) {
            let total = self.moved.entry(name.clone()).or_default();
            *total = [total[0] + up, total[1] + down];
        }
    }

    /// Records the segments that a connection sent since its start, and how many of them were
    /// retransmitted.
    pub fn handle_segments(&mut self, now: Instant, flow: FlowId, segments: Segments) {
        let Some(flow) = self.flows.get_mut(flow) else {
            return;
        };
        let before = flow.on_segments(segments);
        let link = flow.over().link();
        if let Some(record) = link.and_then(|link| self.exits.links.get_mut(link)) {
            record.on_segments(now, before, segments);
        }
    }

    /// Records the end of a connection or of an attempt.
    pub fn handle_end(&mut self, now: Instant, id: FlowId) {
        let Some(mut flow) = self.flows.remove(id) else {
            return;
        };
        self.exits.give_back(flow.over(), flow.charge());
        let moved = flow.moved();
        self.stories.end_try(flow.told(), moved, flow.lasted(now));
        if !flow.is_connected() {
            return;
        }
        let [up, down] = moved;
        self.demands.learn(flow.key(), up, down);
        if let Some((moved, took)) = flow.take_burst() {
            self.exits.on_transfer(flow.over(), now, moved, took);
        }
    }

    /// Records the interfaces' counters, sent and received. Call it every half second while
    /// connections are open.
    pub fn handle_counters(
        &mut self,
        now: Instant,
        counters: &BTreeMap<LinkIndex, [ByteCount; 2]>,
    ) {
        self.sweep_now(now);
        let busy = self.flows.take_busy();
        let of = |over: Over| busy.get(&over).copied().unwrap_or_default();
        let by_gateway = of(Over::Gateway);
        for record in self.exits.links.iter_mut() {
            let index = record.link().index;
            let Some(total) = counters.get(&index) else {
                continue;
            };
            let gateway = self.exits.gateway.as_ref();
            let gateway = gateway.filter(|_| by_gateway.contains(&true));
            record.on_reading(Reading {
                at: now,
                total: *total,
                busy: of(Over::Link(index)),
                is_shared: gateway.is_some_and(|it| it.is_on(index)),
            });
        }
        if let Some(gateway) = &mut self.exits.gateway {
            gateway.count(by_gateway);
        }
    }

    /// Records a measurement: bytes sent (`up`) or received over the link in this time.
    pub fn handle_probe(
        &mut self,
        now: Instant,
        link: LinkIndex,
        up: bool,
        bytes: ByteCount,
        span: Duration,
    ) {
        if let Some(record) = self.exits.links.get_mut(link) {
            record.estimates_mut().on_probe(now, up, bytes, span);
        }
    }

    /// Loads the knowledge about links from earlier runs, the newest last.
    pub fn load_rates(&mut self, now: Instant, known: Vec<(LinkKey, KnownLink)>) {
        self.rates.set_earlier(known);
        self.rates.recall(now, &mut self.exits.links);
    }

    /// Sets the default routes, the system's preferred one first. They identify the network that a
    /// link is attached to, and the link that counts as the best while no rates are known.
    pub fn set_default_routes(&mut self, now: Instant, routes: Vec<DefaultRoute>) {
        self.rates.set_routes(routes);
        self.rates.recall(now, &mut self.exits.links);
    }

    /// Returns noticeable changes in the knowledge about links since the last call.
    pub fn take_rates(&mut self) -> BTreeMap<LinkKey, KnownLink> {
        self.rates.take_news(&self.exits.links)
    }

    /// Loads the knowledge about applications from earlier runs.
    pub fn load_demands(&mut self, known: impl IntoIterator<Item = (DemandKey, DemandEstimate)>) {
        self.demands.load(known);
    }

    /// Returns the knowledge about applications gained since the last call.
    pub fn take_learned(&mut self) -> BTreeMap<DemandKey, DemandEstimate> {
        self.demands.take_news()
    }

    /// Returns the known needs of applications.
    pub fn demands(&self) -> &BTreeMap<DemandKey, DemandEstimate> {
        self.demands.all()
    }

    /// Updates loads, unless that happened a moment ago.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.wants_progress(now) {
            self.sweep_now(now);
        }
    }

    pub(super) fn sweep_now(&mut self, now: Instant) {
        self.swept = now;
        self.exits.clear_charges();
        for flow in self.flows.iter_mut() {
            let over = flow.over();
            let is_idle = flow.update(now, self.exits.latency(over));
            // A connection that pauses or has ended shows a lower bound of the rates: many stay
            // open long after their last byte.
            if is_idle
                && flow.is_connected()
                && let Some((moved, took)) = flow.take_burst()
            {
                self.exits.on_transfer(over, now, moved, took);
            }
            self.exits.charge(over, flow.charge());
        }
        self.exits.forget_queues();
    }
}

/// Age of loads up to which they need no update.
const SWEEP_EVERY: Duration = Duration::from_millis(50);
/// Limit of link names: interfaces of containers appear under ever new names.
const MAX_NAMES: usize = 256;
