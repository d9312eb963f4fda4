mod answers;
mod history;
mod loads;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hawser_net::links::{Link, full_tunnel, usable};
use hawser_path::{Activity, DemandEstimate, DemandKey, Segments};
use hawser_policy::RuleSet;
use hawser_sched::connection::{By, ConnectionPolicy, ConnectionScheduler, Demand, Load};
use hawser_sched::rules::Permission;
use hawser_types::{ByteCount, Instant, LinkIndex};
use tokio::sync::watch;

use super::Origin;
use super::decision::Decision;
use super::demands::Demands;
use super::flow::Flow;
use super::gateway::{GATEWAY, GatewayBook};
use super::link_book::LinkBook;
use super::place::Placing;
use super::rates::Rates;
use super::report::{LinkReport, Report};
use super::sites::Site;
use super::story::Stories;
use super::terms::LinkTerms;
use loads::Entry;

/// Decides which link each connection takes, counts what is on the links, and learns.
///
/// One for a daemon; clones share everything. It takes note of links by [`Director::set_links`], of
/// connections by [`Director::open`] and the [`Flow`] that this gives, and of answers by
/// [`Director::handle_answer`] and [`Director::handle_miss`].
#[derive(Clone, Debug)]
pub struct Director {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// Counts the changes after which a connection that is being made may have to go elsewhere, and
    /// the kernel's programs are to hear of at once.
    changes: watch::Sender<u64>,
    /// Whether a session with the gateway runs: asked for each datagram.
    has_session: AtomicBool,
    began: tokio::time::Instant,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) scheduler: Box<dyn ConnectionScheduler>,
    pub(super) rules: Arc<RuleSet>,
    pub(super) terms: LinkTerms,
    /// The links that the user named; none: all.
    pub(super) wanted: Vec<String>,
    /// By the kernel's index.
    pub(super) links: BTreeMap<u32, LinkBook>,
    pub(super) gateway: Option<Box<GatewayBook>>,
    /// The VPNs that the system sends all IPv4 and all IPv6 traffic through.
    tunnels: [Option<Link>; 2],
    flows: BTreeMap<u64, Entry>,
    next_flow: u64,
    pub(super) stories: Stories,
    pub(super) demands: Demands,
    pub(super) rates: Rates,
    /// What went over each link in all, by its name.
    moved: BTreeMap<String, [ByteCount; 2]>,
    swept: Instant,
    opened: u64,
    moved_over: u64,
    unanswered: u64,
}

impl Director {
    /// A director for the links in `wanted`, or for all where that is empty.
    pub fn new(policy: ConnectionPolicy, wanted: Vec<String>) -> Self {
        let inner = Inner {
            scheduler: policy.scheduler(),
            rules: Arc::default(),
            terms: LinkTerms::default(),
            wanted,
            links: BTreeMap::new(),
            gateway: None,
            tunnels: [None, None],
            flows: BTreeMap::new(),
            next_flow: 0,
            stories: Stories::new(),
            demands: Demands::default(),
            rates: Rates::default(),
            moved: BTreeMap::new(),
            swept: Instant::ZERO,
            opened: 0,
            moved_over: 0,
            unanswered: 0,
        };
        let shared = Shared {
            inner: Mutex::new(inner),
            changes: watch::Sender::new(0),
            has_session: AtomicBool::new(false),
            began: tokio::time::Instant::now(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The machine's links as they are now.
    pub fn set_links(&self, links: &[Link]) {
        let now = self.now();
        let mut inner = self.lock();
        let usable = usable(links, &inner.wanted);
        inner.note_tunnels(links);
        let mut known = std::mem::take(&mut inner.links);
        for link in usable {
            let index = link.index;
            let book = match known.remove(&index) {
                // The number may be another interface's by now.
                Some(book) if book.link.name == link.name => LinkBook {
                    link: Arc::new(link),
                    ..book
                },
                _ => LinkBook {
                    since: now,
                    ..LinkBook::new(Arc::new(link))
                },
            };
            inner.links.insert(index, book);
        }
        inner.recall_rates(now);
        drop(inner);
        self.change();
    }

    /// Places connections by another policy from now on. Those that are open stay on their links.
    pub fn set_policy(&self, policy: ConnectionPolicy) {
        let mut inner = self.lock();
        if inner.scheduler.policy() != policy {
            inner.scheduler = policy.scheduler();
            drop(inner);
            self.change();
        }
    }

    /// The policy that places connections.
    pub fn policy(&self) -> ConnectionPolicy {
        self.lock().scheduler.policy()
    }

    /// The user's rules for connections.
    pub fn set_rules(&self, rules: Arc<RuleSet>) {
        self.lock().rules = rules;
    }

    /// What the user allows on the links.
    pub fn set_terms(&self, terms: LinkTerms) {
        let mut inner = self.lock();
        if inner.terms != terms {
            inner.terms = terms;
            drop(inner);
            self.change();
        }
    }

    /// What was learned in earlier runs.
    pub fn load_demands(&self, known: impl IntoIterator<Item = (DemandKey, DemandEstimate)>) {
        self.lock().demands.load(known);
    }

    /// What was learned since this was last asked.
    pub fn take_learned(&self) -> BTreeMap<DemandKey, DemandEstimate> {
        self.lock().demands.take_news()
    }

    /// What is known of the needs of applications.
    pub fn demands(&self) -> BTreeMap<DemandKey, DemandEstimate> {
        self.lock().demands.all().clone()
    }

    /// Where a connection may go, the best first. Charges nothing yet.
    pub fn decide(&self, origin: &Origin) -> Decision {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        Placing::new(&mut inner, origin, now).decide()
    }

    /// The same for what no application asked for, of which no story is told.
    pub(super) fn decide_untold(&self, origin: &Origin) -> Decision {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        Placing::new(&mut inner, origin, now).decide_untold()
    }

    /// The same for a connection of which `before` was decided, when links have changed meanwhile.
    pub(super) fn decide_again(&self, origin: &Origin, before: &Decision) -> Decision {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        Placing::new(&mut inner, origin, now).decide_again(before.story)
    }

    /// Charges a link with a connection that is about to be made on it.
    pub fn open(&self, decision: &Decision, link: LinkIndex) -> Flow {
        let (key, site) = (decision.key.clone(), decision.site.clone());
        let told = Some(decision.story);
        self.open_on(link.value(), (key, decision.demand, site), told)
    }

    /// Charges the link with this index, or the gateway.
    pub(super) fn open_on(
        &self,
        link: u32,
        (key, demand, site): (DemandKey, Demand, Option<Site>),
        story: Option<u64>,
    ) -> Flow {
        let now = self.now();
        let moved = Arc::default();
        let mut inner = self.lock();
        let number = inner.next_flow;
        inner.next_flow += 1;
        let over = inner.book_mut(link).map(|book| Arc::clone(&book.link));
        let entry = Entry {
            told: story
                .zip(over)
                .and_then(|(story, over)| inner.stories.try_over(story, Some(over), now)),
            begun: now,
            link,
            key,
            demand,
            site,
            moved: Arc::clone(&moved),
            activity: Activity::new(now),
            segments: Segments::default(),
            connected: None,
            charge: Load {
                connections: 1,
                up: demand.up,
                down: demand.down,
            },
        };
        inner.charge(&entry);
        inner.flows.insert(number, entry);
        drop(inner);
        Flow::new(self.clone(), number, LinkIndex::new(link), moved)
    }

    /// A measurement has moved so many bytes over the link in this time, up or else down.
    pub fn handle_probe(&self, link: LinkIndex, up: bool, bytes: ByteCount, span: Duration) {
        self.with_book(link, |book, now| match up {
            true => book.up.on_probe(now, bytes, span),
            false => book.down.on_probe(now, bytes, span),
        });
    }

    /// How a connection came about: on the link that was tried first, on another, or not at all.
    pub(super) fn handle_outcome(&self, is_first: Option<bool>) {
        let mut inner = self.lock();
        match is_first {
            Some(true) => {}
            Some(false) => inner.moved_over += 1,
            None => inner.unanswered += 1,
        }
    }

    /// Changes whenever a link comes, goes, or is found to be sound or not, and whenever the user says
    /// otherwise how links or the gateway are used.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Everything that is known, at this moment.
    pub fn report(&self) -> Report {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep(now);
        let counting = inner.counting(now);
        let on = |index: u32| inner.flows.values().filter(move |it| it.link == index);
        let open = |index: u32| on(index).count() as u64;
        let links = inner.links.iter().map(|(index, book)| LinkReport {
            link: Arc::clone(&book.link),
            up: book.up.rate().unwrap_or_default(),
            down: book.down.rate().unwrap_or_default(),
            counts_for: counting.of(book),
            confidence: [book.up.confidence(now), book.down.confidence(now)],
            latency: book.latency.smoothed(),
            loss: book.loss.rate(),
            loss_confidence: book.loss.confidence(now),
            load: book.load,
            opened: book.opened,
            open: open(*index),
            is_free: inner.terms.is_free(&book.link),
            permission: inner.terms.permission(&book.link),
            health: book.record.health(),
        });
        let gateway = inner.gateway.as_ref();
        Report {
            policy: inner.scheduler.policy(),
            gateway: gateway.map(|gateway| gateway.report(open(GATEWAY))),
            links: links.collect(),
            opened: inner.opened,
            moved_over: inner.moved_over,
            unanswered: inner.unanswered,
            tunnels: inner
                .tunnels()
                .map(|tunnel| tunnel.map(|it| it.name.clone())),
        }
    }

    /// Takes in what connections have moved until now.
    pub(super) fn settle(&self) {
        self.lock().sweep_now(self.now());
    }

    /// What went over each link in all, sent and received, by its name.
    pub fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        let mut inner = self.lock();
        inner.sweep_now(self.now());
        inner.moved.clone()
    }

    /// Takes in what the interfaces have carried so far, sent and received, by their index. To be
    /// called every half second while connections are open.
    pub fn handle_counters(&self, counters: &BTreeMap<u32, [ByteCount; 2]>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.sweep_now(now);
        let busy = inner.busy();
        let shared = busy.get(&GATEWAY).copied().unwrap_or_default();
        let Inner { links, gateway, .. } = &mut *inner;
        for (index, book) in links {
            if let Some([up, down]) = counters.get(index) {
                let [busy_up, busy_down] = busy.get(index).copied().unwrap_or_default();
                book.up.on_counter(now, *up, busy_up);
                book.down.on_counter(now, *down, busy_down);
                let gateway = gateway.as_ref().filter(|_| shared.contains(&true));
                let is_shared = gateway.is_some_and(|it| it.is_on(*index));
                book.on_shared(now, [*up, *down], is_shared);
            }
        }
        inner.count_gateway(shared);
    }

    /// Whether what was placed on `link`, as it was then, may go on towards `remote` in the same way.
    pub(super) fn carries(&self, link: &Link, remote: IpAddr) -> bool {
        let inner = self.lock();
        let book = inner.links.get(&link.index);
        book.map(|book| &book.link).is_some_and(|now| {
            now.name == link.name
                && now.source_address(remote) == link.source_address(remote)
                && !matches!(inner.terms.permission(now), Permission::Forbidden(_))
        })
    }

    /// Whether a session with the gateway runs.
    pub fn has_session(&self) -> bool {
        self.shared.has_session.load(Ordering::Relaxed)
    }

    pub(super) fn note_session(&self, runs: bool) {
        self.shared.has_session.store(runs, Ordering::Relaxed);
    }

    /// Connections that are open.
    pub fn open_count(&self) -> usize {
        self.lock().flows.len()
    }

    pub(super) fn handle_connected(&self, flow: u64, latency: Option<Duration>, ago: Duration) {
        let now = self.now();
        let mut inner = self.lock();
        let Some(entry) = inner.flows.get_mut(&flow) else {
            return;
        };
        entry.connected = Some(now - ago);
        entry.activity.on_begun(now - ago);
        let (link, told, site) = (entry.link, entry.told, entry.site.clone());
        inner.tell_connected(told);
        inner.opened += u64::from(link != GATEWAY);
        if let Some(book) = inner.book_mut(link) {
            book.opened += 1;
        }
        if let (Some(gateway), Some(site)) = (&mut inner.gateway, site) {
            gateway.sites.note(&site, way_of(link), now);
        }
        drop(inner);
        self.handle_answer_at(LinkIndex::new(link), latency, now - ago);
    }

    pub(super) fn handle_round_trip(&self, link: LinkIndex, rtt: Duration) {
        self.with_book(link, |book, _| book.latency.on_sample(rtt));
    }

    pub(super) fn handle_end(&self, flow: u64) {
        let now = self.now();
        let mut inner = self.lock();
        let Some(mut entry) = inner.flows.remove(&flow) else {
            return;
        };
        inner.give_back(&entry);
        inner.settle(&mut entry, now);
        let [up, down] = entry.activity.moved();
        let lasted = now.since(entry.connected.unwrap_or(entry.begun));
        inner.tell_end(entry.told, [up, down], lasted);
        if entry.connected.is_none() {
            return;
        }
        inner.demands.learn(&entry.key, up, down);
        inner.learn_burst(&mut entry, now);
    }

    pub(super) fn change(&self) {
        self.shared.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn now(&self) -> Instant {
        // A second on, so that no moment is the origin itself.
        Instant::ZERO + Duration::from_secs(1) + self.shared.began.elapsed()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.shared
            .inner
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of what is charged to this index.
pub(super) const fn way_of(link: u32) -> By {
    match link {
        GATEWAY => By::Gateway,
        _ => By::Link,
    }
}

impl Inner {
    fn note_tunnels(&mut self, links: &[Link]) {
        let named = !self.wanted.is_empty();
        let found = [false, true].map(|v6| full_tunnel(links, v6).filter(|_| !named).cloned());
        for (family, (before, now)) in ["IPv4", "IPv6"].iter().zip(self.tunnels.iter().zip(&found))
        {
            let name = |tunnel: &Option<Link>| tunnel.as_ref().map(|it| it.name.clone());
            match (name(before), name(now)) {
                (before, now) if before == now => {}
                (_, Some(tunnel)) => tracing::info!(
                    tunnel,
                    "a VPN takes all {family} traffic: connections are left to it, unless links are named"
                ),
                (_, None) => tracing::info!("no VPN takes all {family} traffic any more"),
            }
        }
        self.tunnels = found;
    }

    /// The VPNs that take all IPv4 and all IPv6 traffic; none where the user has named links, or has
    /// forbidden the VPN.
    pub(super) fn tunnels(&self) -> [Option<&Link>; 2] {
        let is_allowed =
            |link: &&Link| !matches!(self.terms.permission(link), Permission::Forbidden(_));
        self.tunnels
            .each_ref()
            .map(|tunnel| tunnel.as_ref().filter(is_allowed))
    }
}

#[cfg(test)]
mod tests;
