use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_director::{
    AllLinkRules, ConnectionRequest, Director, DirectorReport, FlowId, LinkDecision, Question,
    Route, SessionView, Story,
};
use hawser_path::{KnownLink, LinkKey};
use hawser_policy::RuleSet;
use hawser_sched::connection::{ConnectionPolicy, GatewayUse};
use hawser_sched::{DemandEstimate, DemandKey};
use hawser_types::{ByteCount, DefaultRoute, Instant, Link, LinkIndex};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::counters::Counters;

/// The director of a daemon, shared by all tasks that make connections: a [`Director`] with its
/// lock and its clock. Clones share everything.
///
/// `hawser-director` documents the decisions. Callers reach functions that are missing here through
/// [`SharedDirector::with`].
#[derive(Clone, Debug)]
pub struct SharedDirector {
    shared: Arc<DirectorState>,
}

#[derive(Debug)]
struct DirectorState {
    state: Mutex<State>,
    /// Counts changes after which a connection in progress may have to go another way. The kernel's
    /// programs learn of each change at once.
    changes: watch::Sender<u64>,
    /// True while a session with the gateway runs. Read for each datagram.
    has_session: AtomicBool,
    began: tokio::time::Instant,
}

#[derive(Debug)]
struct State {
    director: Director,
    /// Counters of the open connections, updated without the lock.
    counters: BTreeMap<FlowId, Arc<Counters>>,
}

/// The connections whose progress the director receives before it is called.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    Nothing,
    IfDue,
    All,
}

impl SharedDirector {
    /// Creates a director for the links in `wanted`, or for all links if that is empty.
    pub fn new(policy: ConnectionPolicy, wanted: Vec<String>) -> Self {
        let state = State {
            director: Director::new(policy, wanted),
            counters: BTreeMap::new(),
        };
        let shared = DirectorState {
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            has_session: AtomicBool::new(false),
            began: tokio::time::Instant::now(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Calls the director with the present time.
    pub fn with<R>(&self, act: impl FnOnce(&mut Director, Instant) -> R) -> R {
        self.telling(Tell::Nothing, |state, now| act(&mut state.director, now))
    }

    /// Sets the machine's links as they are now.
    pub fn set_links(&self, links: &[Link]) {
        self.with(|director, now| director.set_links(now, links));
    }

    /// Places new connections by this policy. Open connections stay on their links.
    pub fn set_policy(&self, policy: ConnectionPolicy) {
        self.with(|director, _| director.set_policy(policy));
    }

    /// Returns the policy that places connections.
    pub fn policy(&self) -> ConnectionPolicy {
        self.with(|director, _| director.policy())
    }

    /// Sets the user's rules for connections.
    pub fn set_rules(&self, rules: Arc<RuleSet>) {
        self.with(|director, _| director.set_rules(rules));
    }

    /// Sets the user's rules for links.
    pub fn set_link_rules(&self, rules: AllLinkRules) {
        self.with(|director, _| director.set_link_rules(rules));
    }

    /// Sets that there is a gateway, used as `usage` says.
    pub fn set_gateway(&self, usage: GatewayUse) {
        self.with(|director, _| director.set_gateway(usage));
    }

    /// Returns the use of the gateway; `None` without a gateway.
    pub fn gateway_use(&self) -> Option<GatewayUse> {
        self.with(|director, _| director.gateway_use())
    }

    /// Returns whether all connections go through the gateway.
    pub fn is_all_by_gateway(&self) -> bool {
        self.with(|director, _| director.is_all_by_gateway())
    }

    /// Sets the present state of the session with the gateway. Call this every half second.
    pub fn set_session(&self, session: Option<SessionView>) {
        let runs = session.is_some();
        self.with(|director, now| {
            if director.set_session(now, session) {
                self.shared.has_session.store(runs, Ordering::Relaxed);
            }
        });
    }

    /// Returns whether a session with the gateway runs.
    pub fn has_session(&self) -> bool {
        self.shared.has_session.load(Ordering::Relaxed)
    }

    /// Loads what earlier runs have learned about links, the newest last.
    pub fn load_rates(&self, known: Vec<(LinkKey, KnownLink)>) {
        self.with(|director, now| director.load_rates(now, known));
    }

    /// Loads what earlier runs have learned about the demands of applications.
    pub fn load_demands(&self, known: impl IntoIterator<Item = (DemandKey, DemandEstimate)>) {
        self.with(|director, _| director.load_demands(known));
    }

    /// Sets the default routes, in the system's order of preference.
    pub fn set_default_routes(&self, routes: Vec<DefaultRoute>) {
        self.with(|director, now| director.set_default_routes(now, routes));
    }

    /// Decides which way a connection goes.
    pub fn decide(&self, question: &Question<'_>) -> Route {
        self.telling(Tell::IfDue, |state, now| {
            state.director.decide(now, question)
        })
    }

    /// Decides which links a connection tries that does not go over the gateway.
    pub fn decide_links(&self, request: &ConnectionRequest) -> LinkDecision {
        self.telling(Tell::IfDue, |state, now| {
            state.director.decide_links(now, request)
        })
    }

    /// As [`Self::decide_links`], for a connection of Hawser's own, which gets no [`Story`].
    pub(super) fn decide_untold(&self, request: &ConnectionRequest) -> LinkDecision {
        self.telling(Tell::IfDue, |state, now| {
            state.director.decide_untold(now, request)
        })
    }

    /// As [`Self::decide_links`], after links have changed since the decision `before`.
    pub(super) fn decide_again(
        &self,
        request: &ConnectionRequest,
        before: &LinkDecision,
    ) -> LinkDecision {
        self.telling(Tell::IfDue, |state, now| {
            state.director.decide_again(now, request, before)
        })
    }

    /// Returns the director's present state.
    pub fn report(&self) -> DirectorReport {
        self.telling(Tell::IfDue, |state, now| state.director.report(now))
    }

    /// Returns whether only a queue explains why a connection has waited so long over the link.
    pub(super) fn is_only_slow(&self, link: LinkIndex, waited: Duration) -> bool {
        self.telling(Tell::IfDue, |state, now| {
            state.director.is_only_slow(now, link, waited)
        })
    }

    /// Takes in the progress of all open connections.
    pub(super) fn settle(&self) {
        self.telling(Tell::All, |_, _| ());
    }

    /// Returns the bytes that went over each link in all, sent and received, by its name.
    pub fn moved(&self) -> BTreeMap<String, [ByteCount; 2]> {
        self.telling(Tell::All, |state, now| state.director.moved(now))
    }

    /// Takes in the interfaces' counters. Call this every half second while connections are open.
    pub fn handle_counters(&self, counters: &BTreeMap<LinkIndex, [ByteCount; 2]>) {
        self.telling(Tell::All, |state, now| {
            state.director.handle_counters(now, counters);
        });
    }

    /// Ends the connections whose links are gone, so that their applications can retry. Call this
    /// every half second while connections are open.
    pub fn end_stranded(&self) {
        let ended: Vec<_> = self.telling(Tell::Nothing, |state, now| {
            let stranded = state.director.stranded(now);
            let counters = stranded.iter().filter_map(|flow| state.counters.get(flow));
            counters.map(Arc::clone).collect()
        });
        ended.iter().for_each(|it| it.stranded().set());
    }

    /// Returns the stories (facts, choice, outcome) of the latest connections, `count` at most, the
    /// latest last, and the time on the same clock.
    pub fn stories(&self, count: usize) -> (Instant, Vec<Story>) {
        self.telling(Tell::All, |state, now| {
            (now, state.director.stories(now, count))
        })
    }

    /// Returns the story with this number, and the time on the same clock.
    pub fn story(&self, number: u64) -> (Instant, Option<Story>) {
        self.telling(Tell::All, |state, now| {
            (now, state.director.story_of(now, number))
        })
    }

    /// Returns whether a flow to `remote` may stay on its link; `link` is the link's state when the
    /// flow was placed.
    pub(super) fn carries(&self, link: &Link, remote: IpAddr) -> bool {
        self.with(|director, _| director.carries(link, remote))
    }

    /// Returns a channel that changes whenever connections in progress may have to go another way.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Returns the time on the director's clock.
    pub(super) fn now(&self) -> Instant {
        // Starts at one second, so that no moment is the origin itself.
        Instant::ZERO + Duration::from_secs(1) + self.shared.began.elapsed()
    }

    /// Ends a connection, or an attempt to connect.
    pub(super) fn end(&self, flow: FlowId) {
        self.telling(Tell::Nothing, |state, now| {
            if let Some(counters) = state.counters.remove(&flow) {
                let progress = counters.take();
                state.director.handle_progress(now, flow, &progress);
            }
            state.director.handle_end(now, flow);
        });
    }

    /// Begins to count a connection that `open` charges.
    pub(super) fn begin(
        &self,
        open: impl FnOnce(&mut Director, Instant) -> FlowId,
    ) -> (FlowId, Arc<Counters>) {
        let counters = Arc::<Counters>::default();
        let id = self.telling(Tell::Nothing, |state, now| {
            let id = open(&mut state.director, now);
            state.counters.insert(id, Arc::clone(&counters));
            id
        });
        (id, counters)
    }

    fn telling<R>(&self, tell: Tell, act: impl FnOnce(&mut State, Instant) -> R) -> R {
        let now = self.now();
        let mut state = self.shared.state.lock();
        state.tell(tell, now);
        let result = act(&mut state, now);
        let is_changed = state.director.take_change();
        drop(state);
        if is_changed {
            self.shared.changes.send_modify(|count| *count += 1);
        }
        result
    }
}

impl State {
    fn tell(&mut self, tell: Tell, now: Instant) {
        let is_due = match tell {
            Tell::Nothing => false,
            Tell::IfDue => self.director.wants_progress(now),
            Tell::All => true,
        };
        if is_due {
            for (flow, counters) in &self.counters {
                let progress = counters.take();
                self.director.handle_progress(now, *flow, &progress);
            }
        }
    }
}
