mod answers;
mod history;
mod learning;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{LinkChoice, RuleSet};
use hawser_sched::connection::{ConnectionPolicy, ConnectionScheduler, GatewayUse};
use hawser_types::{ByteCount, Instant, Link, LinkIndex};

use super::decision::{
    AddressRoute, GatewayDecision, LinkDecision, Missing, NO_STORY, Outlook, Question, Route,
    Standing, SystemRoutes, leads_to,
};
use super::demands::Demands;
use super::exits::{Exits, Over};
use super::flows::{Flow, FlowId, Flows, Progress};
use super::gateway::{GatewayRecord, SessionView};
use super::judgement::Judgement;
use super::link_rates::{EffectiveRates, LinkRates};
use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;
use super::links::Links;
use super::placing::Placed;
use super::report::{DirectorReport, LinkReport};
use super::request::ConnectionRequest;
use super::story::{LeftTo, MAX_PROMISES, Promise, Stories, Story, Subject, TryRoute};
use super::weighing::Weighing;

/// Decides how each connection is routed, counts the connections on each link, and learns.
///
/// The caller passes links ([`Director::set_links`]), connections ([`Director::open`],
/// [`Director::handle_connected`], [`Director::handle_end`]) and answers
/// ([`Director::handle_answer`], [`Director::handle_miss`]). It also passes the progress of each
/// open connection with [`Director::handle_progress`]: always before [`Director::handle_counters`],
/// [`Director::moved`] and [`Director::stories`], and before other calls if
/// [`Director::wants_progress`] is true. After any call, [`Director::take_change`] tells whether
/// unfinished connection attempts need a new decision.
#[derive(Debug)]
pub struct Director {
    scheduler: Box<dyn ConnectionScheduler>,
    rules: Arc<RuleSet>,
    link_rules: AllLinkRules,
    exits: Exits,
    flows: Flows,
    stories: Stories,
    demands: Demands,
    rates: LinkRates,
    /// Bytes sent and received over each link, by its name.
    moved: BTreeMap<String, [ByteCount; 2]>,
    /// Time when loads were last updated.
    swept: Instant,
    is_changed: bool,
    opened: u64,
    moved_over: u64,
    unanswered: u64,
}

impl Director {
    /// Creates a director for the links in `wanted`, or for all links if that is empty.
    pub fn new(policy: ConnectionPolicy, wanted: Vec<String>) -> Self {
        Self {
            scheduler: policy.scheduler(),
            rules: Arc::default(),
            link_rules: AllLinkRules::default(),
            exits: Exits {
                links: Links::new(wanted),
                gateway: None,
            },
            flows: Flows::default(),
            stories: Stories::new(),
            demands: Demands::default(),
            rates: LinkRates::default(),
            moved: BTreeMap::new(),
            swept: Instant::ZERO,
            is_changed: false,
            opened: 0,
            moved_over: 0,
            unanswered: 0,
        }
    }

    /// Sets the machine's current links.
    pub fn set_links(&mut self, now: Instant, links: &[Link]) {
        self.exits.links.set(now, links);
        self.rates.recall(now, &mut self.exits.links);
        self.is_changed = true;
    }

    /// Sets the policy that places connections. Open ones stay on their links.
    pub fn set_policy(&mut self, policy: ConnectionPolicy) {
        if self.scheduler.policy() != policy {
            self.scheduler = policy.scheduler();
            self.is_changed = true;
        }
    }

    /// Returns the policy that places connections.
    pub fn policy(&self) -> ConnectionPolicy {
        self.scheduler.policy()
    }

    /// Sets the user's rules for connections.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        if self.rules != rules {
            self.rules = rules;
            self.is_changed = true;
        }
    }

    /// Sets the user's rules for links.
    pub fn set_link_rules(&mut self, rules: AllLinkRules) {
        if self.link_rules != rules {
            self.link_rules = rules;
            self.is_changed = true;
        }
    }

    /// Enables the gateway, for this use. Knowledge of an earlier gateway stays.
    pub fn set_gateway(&mut self, usage: GatewayUse) {
        match &mut self.exits.gateway {
            Some(gateway) => gateway.set_usage(usage),
            none => *none = Some(Box::new(GatewayRecord::new(usage))),
        }
        self.is_changed = true;
    }

    /// Returns the use of the gateway; `None` without a gateway.
    pub fn gateway_use(&self) -> Option<GatewayUse> {
        self.exits.gateway.as_ref().map(|it| it.usage())
    }

    /// Returns true if the gateway is for everything.
    pub fn is_all_by_gateway(&self) -> bool {
        self.gateway_use() == Some(GatewayUse::Always)
    }

    /// Sets the current session with the gateway. Call it every half second. Returns false without
    /// a gateway.
    pub fn set_session(&mut self, now: Instant, session: Option<SessionView>) -> bool {
        let Some(gateway) = &mut self.exits.gateway else {
            return false;
        };
        gateway.set_session(now, session);
        true
    }

    /// Returns true once after a change that may invalidate unfinished connection attempts: a link
    /// appeared, disappeared or changed its state, or the user changed rules.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }

    /// Decides the route of a connection. Charges nothing yet.
    ///
    /// Judges rules, expectations and links once. The answer is final, unless it is
    /// [`Route::Unresolved`]: then the caller finds out what is missing and asks again.
    ///
    /// A session with the destination itself comes first, in the order of
    /// [`FarEnds`](super::FarEnds). Named hosts have no other route. The others need rules that let
    /// the connection use every link, and a gateway that is not for everything.
    pub fn decide(&mut self, now: Instant, question: &Question<'_>) -> Route {
        let verdict = || self.rules.judge(&question.request.facts());
        let may_be_other = || !self.is_all_by_gateway() && verdict().may_use_all_links();
        if let Some(route) = question.ends.route(may_be_other) {
            return route;
        }
        let is_near = match (question.is_near, &self.exits.gateway) {
            (None, Some(_)) => return Route::Unresolved(Missing::Surroundings),
            (is_near, _) => is_near.unwrap_or_default(),
        };
        self.sweep(now);
        let judgement = self.judge(question.request);
        let rates = self.rates.effective(now, &self.exits.links);
        if let Some(decision) = self.decide_gateway(&judgement, &rates, is_near) {
            return Route::Gateway(decision);
        }
        if !question.is_resolved {
            return Route::Unresolved(Missing::Addresses);
        }
        Route::Links(self.place(&judgement, &rates, None))
    }

    /// Decides which links a connection tries, without weighing the gateway.
    pub fn decide_links(&mut self, now: Instant, request: &ConnectionRequest) -> LinkDecision {
        self.decide_among_links(now, request, None)
    }

    /// Does the same for a connection of Hawser's own, for which no story is recorded.
    pub fn decide_untold(&mut self, now: Instant, request: &ConnectionRequest) -> LinkDecision {
        self.decide_among_links(now, request, Some(NO_STORY))
    }

    /// Decides again on a connection after links have changed; `before` is the earlier decision.
    pub fn decide_again(
        &mut self,
        now: Instant,
        request: &ConnectionRequest,
        before: &LinkDecision,
    ) -> LinkDecision {
        self.stories.decided_again(before.story);
        self.decide_among_links(now, request, Some(before.story))
    }

    /// Charges a link with a connection that is about to be opened on it.
    pub fn open(&mut self, now: Instant, decision: &LinkDecision, link: LinkIndex) -> FlowId {
        let over = self.exits.links.get(link);
        let told = over.and_then(|record| {
            let route = TryRoute::Link(Arc::clone(record.link()));
            self.stories.try_route(decision.story, route, now)
        });
        let expected = decision.expected.clone();
        self.insert(Flow::new(now, Over::Link(link), expected, told))
    }

    /// Charges the gateway with a connection that is about to be opened over it.
    pub fn open_by_gateway(&mut self, now: Instant, decision: &GatewayDecision) -> FlowId {
        let story = self.tell_by_gateway(decision);
        let has_gateway = self.exits.gateway.is_some();
        let told = has_gateway.then(|| self.stories.try_route(story, TryRoute::Gateway, now));
        let expected = decision.expected.clone();
        self.insert(Flow::new(now, Over::Gateway, expected, told.flatten()))
    }

    /// Records a flow over the gateway, and returns the number of its story.
    pub fn tell_by_gateway(&mut self, decision: &GatewayDecision) -> u64 {
        self.stories.begin(Story::clone(&decision.story))
    }

    /// Returns the current state.
    pub fn report(&mut self, now: Instant) -> DirectorReport {
        self.sweep(now);
        let rates = self.rates.effective(now, &self.exits.links);
        let links = self.exits.links.iter().map(|record| {
            let counts_for = rates.of(record, &self.link_rules);
            self.report_link(now, record, counts_for)
        });
        let gateway = self.exits.gateway.as_ref();
        let over_gateway = self.flows.count_over(Over::Gateway);
        let tunnels = self.exits.links.tunnels(&self.link_rules);
        DirectorReport {
            policy: self.scheduler.policy(),
            gateway: gateway.map(|gateway| gateway.report(over_gateway)),
            links: links.collect(),
            opened: self.opened,
            moved_over: self.moved_over,
            unanswered: self.unanswered,
            tunnels: tunnels.map(|tunnel| tunnel.map(|it| it.name.clone())),
        }
    }

    /// Returns the total bytes sent and received over each link, by its name.
    pub fn moved(&mut self, now: Instant) -> BTreeMap<String, [ByteCount; 2]> {
        self.sweep_now(now);
        self.moved.clone()
    }

    /// Returns the number of connections that are open.
    pub fn open_count(&self) -> usize {
        self.flows.len()
    }

    /// Returns the connections over links that have been gone for too long. The caller must end
    /// these, so that their programs can retry over other links.
    pub fn stranded(&mut self, now: Instant) -> Vec<FlowId> {
        let used: BTreeSet<_> = self
            .flows
            .iter()
            .filter_map(|it| it.over().link())
            .collect();
        let links = &mut self.exits.links;
        links.forget_gone(|link| used.contains(&link));
        let links = &self.exits.links;
        let is_stranded = |flow: &Flow| {
            let link = flow.over().link();
            flow.is_connected() && link.is_some_and(|link| links.is_given_up(link, now))
        };
        let flows = self.flows.iter_with_ids();
        flows
            .filter(|(_, flow)| is_stranded(flow))
            .map(|(id, _)| id)
            .collect()
    }

    /// Returns the links whose own name servers may be used: none while a VPN has all traffic of a
    /// family, because the name servers were chosen together with the VPN.
    pub fn links_for_names(&self) -> Vec<Link> {
        let links = &self.exits.links;
        if links.tunnels(&self.link_rules).iter().any(Option::is_some) {
            return Vec::new();
        }
        let links = links.iter().map(LinkRecord::link);
        let allowed = links.filter(|link| !self.link_rules.permission(link).is_forbidden());
        allowed.map(|link| Link::clone(link)).collect()
    }

    /// True if a flow that was placed on `link`, in its state at that time, may continue towards
    /// `remote`.
    pub fn carries(&self, link: &Link, remote: IpAddr) -> bool {
        let record = self.exits.links.get(link.index);
        record.map(LinkRecord::link).is_some_and(|now| {
            now.name == link.name
                && now.source_address(remote) == link.source_address(remote)
                && !self.link_rules.permission(now).is_forbidden()
        })
    }

    /// Returns the validity of an attempt to reach `address` over `link`, which has the link's
    /// state at the decision; `None` stands for the system's routes.
    pub fn outlook(
        &self,
        request: &ConnectionRequest,
        address: IpAddr,
        link: Option<&Link>,
    ) -> Outlook {
        let judgement = self.judge(request);
        let is_open = |record: &LinkRecord| {
            let v6 = address.is_ipv6();
            let leads = leads_to(record.link(), v6) && !judgement.leaves_to_system(v6);
            leads && judgement.is_open(record, &self.link_rules)
        };
        let Some(link) = link else {
            let candidates_lead = self.exits.links.iter().any(is_open);
            let system = self.system_routes(&judgement);
            return match system.route(address.is_ipv6(), candidates_lead) {
                AddressRoute::System => Outlook::Open,
                AddressRoute::Links => Outlook::Gone,
                AddressRoute::Closed => Outlook::Forbidden,
            };
        };
        if !judgement.is_allowed(link, &self.link_rules) {
            return Outlook::Forbidden;
        }
        let record = self.exits.links.get(link.index);
        let same = record.filter(|record| record.link().name == link.name);
        if same.is_some_and(is_open) {
            Outlook::Open
        } else {
            Outlook::Gone
        }
    }

    fn insert(&mut self, flow: Flow) -> FlowId {
        self.exits.charge(flow.over(), flow.charge());
        self.flows.insert(flow)
    }

    fn judge<'a>(&self, request: &'a ConnectionRequest) -> Judgement<'a> {
        let tunnels = self.exits.links.tunnels(&self.link_rules);
        Judgement::new(request, &self.rules, &self.demands, tunnels)
    }

    /// Decides among links. `told` is the number of the story to continue.
    fn decide_among_links(
        &mut self,
        now: Instant,
        request: &ConnectionRequest,
        told: Option<u64>,
    ) -> LinkDecision {
        self.sweep(now);
        let judgement = self.judge(request);
        let rates = self.rates.effective(now, &self.exits.links);
        self.place(&judgement, &rates, told)
    }

    /// Decides for the gateway, if it is the better route.
    fn decide_gateway(
        &mut self,
        judgement: &Judgement<'_>,
        rates: &EffectiveRates,
        is_near: bool,
    ) -> Option<GatewayDecision> {
        let gateway = self.exits.gateway.as_mut()?;
        let weighing = Weighing {
            links: &self.exits.links,
            rules: &self.link_rules,
            rates,
            judgement,
        };
        let why = weighing.why_gateway(gateway, is_near)?;
        let waits_for_gateway = gateway.usage() == GatewayUse::Always;
        let patience = gateway.patience().max(MIN_HEAD_START);
        let left_to = LeftTo::Gateway(why);
        Some(GatewayDecision {
            waits_for_gateway,
            patience,
            expected: judgement.expected().clone(),
            story: Box::new(self.story(rates.now(), judgement, Placed::default(), Some(left_to))),
        })
    }

    fn place(
        &mut self,
        judgement: &Judgement<'_>,
        rates: &EffectiveRates,
        told: Option<u64>,
    ) -> LinkDecision {
        let placed = Placed::new(
            &mut self.exits.links,
            &mut *self.scheduler,
            judgement,
            &self.link_rules,
            rates,
        );
        let decision = LinkDecision {
            candidates: placed.candidates(&self.exits.links),
            trial: placed.trial.clone(),
            expected: judgement.expected().clone(),
            system: self.system_routes(judgement),
            story: NO_STORY,
        };
        let story = told.unwrap_or_else(|| {
            let left_to = judgement.left_to(self.exits.links.tunnels(&self.link_rules));
            let story = self.story(rates.now(), judgement, placed, left_to);
            self.stories.begin(story)
        });
        LinkDecision { story, ..decision }
    }

    fn system_routes(&self, judgement: &Judgement<'_>) -> SystemRoutes {
        let links = &self.exits.links;
        let leads = |v6: bool| links.iter().any(|record| leads_to(record.link(), v6));
        SystemRoutes {
            leads: [leads(false), leads(true)],
            is_open: !links.are_named() && judgement.verdict().links == LinkChoice::Any,
            is_left: judgement.is_left(),
        }
    }

    /// Returns the initial story of a connection.
    fn story(
        &self,
        now: Instant,
        judgement: &Judgement<'_>,
        placed: Placed,
        left_to: Option<LeftTo>,
    ) -> Story {
        let promises = placed.ranked.iter().filter_map(|(standing, view)| {
            let record = self.exits.links.get(view.link)?;
            Some(Promise {
                link: Arc::clone(record.link()),
                view: *view,
                is_reserve: *standing == Standing::Reserve,
                is_suspect: *standing == Standing::Suspect,
            })
        });
        Story {
            number: NO_STORY,
            begun: now,
            subject: Subject::of(judgement.request()),
            policy: self.scheduler.policy(),
            reason: placed.reason,
            demand: *judgement.demand(),
            candidates: promises.take(MAX_PROMISES).collect(),
            left_to,
            verdict: judgement.verdict().clone(),
            rules: Arc::clone(&self.rules),
            is_kernels: false,
            decided_again: 0,
            tries: Vec::new(),
            failed: None,
        }
    }

    fn report_link(
        &self,
        now: Instant,
        record: &LinkRecord,
        counts_for: [hawser_types::Rate; 2],
    ) -> LinkReport {
        let link = record.link();
        let [up, down] = record.estimates().rates();
        let ago = |at: Option<Instant>| at.map(|at| now.since(at));
        LinkReport {
            link: Arc::clone(link),
            network: record.network().map(str::to_owned),
            up,
            down,
            counts_for,
            confidence: record.estimates().confidence(now),
            latency: record.estimates().latency(),
            loss: record.loss().rate(),
            loss_confidence: record.loss().confidence(now),
            load: record.charges().load(),
            opened: record.charges().opened(),
            open: self.flows.count_over(Over::Link(link.index)),
            is_free: self.link_rules.is_free(link),
            price: self.link_rules.price(link),
            permission: self.link_rules.permission(link),
            health: record.health(),
            suspect_for: ago(record.reachability().suspect_since()),
            unheard_for: ago(record.reachability().last_heard()),
        }
    }
}

/// Head start between two addresses: RFC 8305 §8.
const MIN_HEAD_START: Duration = Duration::from_millis(250);
