use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{Rule, RuleSet};
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_types::{ByteCount, DialError, Instant, Link, LinkIndex};

use super::link;
use crate::{
    AllLinkRules, ConnectionRequest, Director, DirectorReport, FarEnds, FlowId, GatewayDecision,
    LinkDecision, Over, Progress, Question, Route, SessionView, Story,
};

/// A director with a clock that tests move, and connections that report their progress in time.
#[derive(Clone)]
pub(crate) struct Rig(Rc<RefCell<Inner>>);

struct Inner {
    director: Director,
    now: Instant,
    flows: BTreeMap<FlowId, Progress>,
}

/// A connection that ends when it is dropped.
pub(crate) struct RigFlow {
    rig: Rig,
    id: FlowId,
    over: Over,
}

impl Rig {
    pub(crate) fn new(policy: ConnectionPolicy, wanted: Vec<String>) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            director: Director::new(policy, wanted),
            now: Instant::ZERO + Duration::from_secs(1),
            flows: BTreeMap::new(),
        })))
    }

    /// Creates a director with links of these names.
    pub(crate) fn with_links(policy: ConnectionPolicy, names: &[&str]) -> Self {
        let rig = Self::new(policy, Vec::new());
        rig.set_links(names);
        rig
    }

    pub(crate) fn now(&self) -> Instant {
        self.0.borrow().now
    }

    pub(crate) fn advance(&self, span: Duration) {
        let mut inner = self.0.borrow_mut();
        inner.now += span;
    }

    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Director, Instant) -> R) -> R {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        act(&mut inner.director, now)
    }

    /// Reports the progress of all connections first.
    fn telling<R>(&self, act: impl FnOnce(&mut Director, Instant) -> R) -> R {
        let mut inner = self.0.borrow_mut();
        let now = inner.now;
        let Inner {
            director, flows, ..
        } = &mut *inner;
        for (id, progress) in flows {
            director.handle_progress(now, *id, progress);
            progress.since = None;
        }
        act(director, now)
    }

    pub(crate) fn set_links(&self, names: &[&str]) {
        let links: Vec<Link> = names.iter().map(|name| Link::clone(&link(name))).collect();
        self.set_all_links(&links);
    }

    pub(crate) fn set_all_links(&self, links: &[Link]) {
        self.with(|director, now| director.set_links(now, links));
    }

    pub(crate) fn set_rule(&self, rule: Rule) {
        let rules = Arc::new(RuleSet::new([rule]));
        self.with(|director, _| director.set_rules(rules));
    }

    pub(crate) fn set_link_rules(&self, rules: AllLinkRules) {
        self.with(|director, _| director.set_link_rules(rules));
    }

    pub(crate) fn set_gateway(&self, usage: GatewayUse) {
        self.with(|director, _| director.set_gateway(usage));
    }

    pub(crate) fn set_session(&self, session: Option<SessionView>) {
        self.with(|director, now| director.set_session(now, session));
    }

    pub(crate) fn decide(&self, request: &ConnectionRequest) -> LinkDecision {
        self.telling_if_due(|director, now| director.decide_links(now, request))
    }

    pub(crate) fn decide_way(&self, request: &ConnectionRequest, is_near: bool) -> Route {
        let question = Question {
            request,
            is_near: Some(is_near),
            is_resolved: true,
            ends: FarEnds::NONE,
        };
        self.telling_if_due(|director, now| director.decide(now, &question))
    }

    pub(crate) fn open(&self, decision: &LinkDecision, link: LinkIndex) -> RigFlow {
        let id = self.with(|director, now| director.open(now, decision, link));
        self.flow(id, Over::Link(link))
    }

    pub(crate) fn open_by_gateway(&self, decision: &GatewayDecision) -> RigFlow {
        let id = self.with(|director, now| director.open_by_gateway(now, decision));
        self.flow(id, Over::Gateway)
    }

    pub(crate) fn report(&self) -> DirectorReport {
        self.telling_if_due(|director, now| director.report(now))
    }

    pub(crate) fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        self.telling(|director, now| director.moved(now))
    }

    pub(crate) fn handle_counters(&self, counters: &BTreeMap<LinkIndex, [ByteCount; 2]>) {
        self.telling(|director, now| director.handle_counters(now, counters));
    }

    pub(crate) fn handle_answer(&self, link: LinkIndex, latency: Option<Duration>) {
        self.with(|director, now| director.handle_answer(now, link, latency));
    }

    pub(crate) fn handle_silence(&self, link: LinkIndex, since: Instant, waited: Duration) {
        self.with(|director, now| director.handle_silence(now, link, since, waited));
    }

    pub(crate) fn handle_probe(&self, link: LinkIndex, up: bool, bytes: u64, span: Duration) {
        let bytes = ByteCount::new(bytes);
        self.with(|director, now| director.handle_probe(now, link, up, bytes, span));
    }

    pub(crate) fn stories(&self, count: usize) -> Vec<Story> {
        self.telling(|director, now| director.stories(now, count))
    }

    pub(crate) fn story(&self, number: u64) -> Option<Story> {
        self.telling(|director, now| director.story_of(now, number))
    }

    fn telling_if_due<R>(&self, act: impl FnOnce(&mut Director, Instant) -> R) -> R {
        if self.with(|director, now| director.wants_progress(now)) {
            self.telling(act)
        } else {
            self.with(act)
        }
    }

    fn flow(&self, id: FlowId, over: Over) -> RigFlow {
        self.0.borrow_mut().flows.insert(id, Progress::default());
        RigFlow {
            rig: self.clone(),
            id,
            over,
        }
    }
}

impl RigFlow {
    pub(crate) fn link(&self) -> LinkIndex {
        self.over.link().unwrap()
    }

    pub(crate) fn connected(&self, latency: Option<Duration>) {
        self.connected_since(latency, Duration::ZERO);
    }

    pub(crate) fn connected_since(&self, latency: Option<Duration>, ago: Duration) {
        self.rig.with(|director, now| {
            director.handle_connected(now, self.id, now - ago, latency);
        });
    }

    pub(crate) fn failed(&self, error: DialError) {
        self.rig
            .with(|director, _| director.note_refused(self.id, error));
    }

    pub(crate) fn moved(&self, up: u64, down: u64) {
        let mut inner = self.rig.0.borrow_mut();
        let progress = inner.flows.get_mut(&self.id).unwrap();
        let [sent, received] = progress.moved;
        progress.moved = [sent + ByteCount::new(up), received + ByteCount::new(down)];
    }

    pub(crate) fn moved_since(&self, since: Instant, up: u64, down: u64) {
        let mut inner = self.rig.0.borrow_mut();
        let progress = inner.flows.get_mut(&self.id).unwrap();
        progress.since = progress.since.or(Some(since));
        drop(inner);
        self.moved(up, down);
    }
}

impl Drop for RigFlow {
    fn drop(&mut self) {
        let progress = self.rig.0.borrow_mut().flows.remove(&self.id);
        self.rig.with(|director, now| {
            director.handle_progress(now, self.id, &progress.unwrap_or_default());
            director.handle_end(now, self.id);
        });
    }
}
