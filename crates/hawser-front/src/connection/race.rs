//! One destination, tried over several links and addresses until one answers.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{AbortHandle, Aborted, BoxFuture, abortable};
use futures_util::stream::FuturesUnordered;
use hawser_director::{
    AddressRoute, Attempt, ConnectionRequest, LinkDecision, Outlook, leads_to, plan,
};
use hawser_types::{Link, LinkIndex};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::counted::Counted;
use super::via::Via;
use super::{Flow, SharedDirector, trial};
use crate::connect::tell_more;
use crate::transport::DialError;

/// The attempts for one destination.
///
/// An attempt begins as soon as those before it have failed, have used up their time, or go over
/// links without hope. Attempts get more time while their links are slow and alive: going elsewhere
/// does not help a connection in a queue, and the policy knew of the queue. The first answered
/// attempt ends the others.
pub(super) struct Race<'a, V: Via> {
    director: &'a SharedDirector,
    via: &'a Arc<V>,
    targets: Targets,
    decision: LinkDecision,
    changes: watch::Receiver<u64>,
    asks_bond: Vec<IpAddr>,
    /// Whether links or rules have changed since the decision.
    is_outdated: bool,
    waiting: VecDeque<Attempt>,
    begun: Vec<Begun>,
    running: FuturesUnordered<BoxFuture<'static, (usize, Ended<V::Stream>)>>,
    most_telling: Option<DialError>,
}

/// A wanted connection, with the addresses in the order in which to try them.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) request: ConnectionRequest,
    pub(crate) addresses: Vec<IpAddr>,
    /// True for each address that follows the system's routes.
    pub(crate) by_routes: Vec<bool>,
}

/// A decision, and the changes of links and rules since the director was asked for it.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) decision: LinkDecision,
    pub(crate) changes: watch::Receiver<u64>,
    /// Addresses whose handshakes ask for a bond.
    pub(crate) asks_bond: Vec<IpAddr>,
}

/// The result of an attempt; [`Aborted`] if the attempt was withdrawn.
type Ended<S> = Result<io::Result<S>, Aborted>;

/// An attempt that has begun.
struct Begun {
    address: IpAddr,
    link: Option<Arc<Link>>,
    at: Instant,
    patience: Duration,
    flow: Option<Flow>,
    abort: AbortHandle,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Failed(DialError),
    /// Rules forbid the attempt now.
    Withdrawn,
}

impl<'a, V: Via> Race<'a, V> {
    pub(super) fn new(
        director: &'a SharedDirector,
        via: &'a Arc<V>,
        targets: Targets,
        decided: Decided,
    ) -> Self {
        let Decided {
            decision,
            changes,
            asks_bond,
        } = decided;
        let waiting = plan(&decision, &targets.addresses, &targets.by_routes);
        Self {
            director,
            via,
            targets,
            decision,
            changes,
            asks_bond,
            is_outdated: false,
            waiting,
            begun: Vec::new(),
            running: FuturesUnordered::new(),
            most_telling: None,
        }
    }

    /// Tries until an attempt is answered or all have failed.
    pub(super) async fn run(mut self) -> Result<Counted<V::Stream>, DialError> {
        let mut due = Instant::now();
        if self.changes.has_changed().is_ok_and(|it| it) {
            self.review();
        }
        self.try_again();
        loop {
            if Instant::now() >= due && self.is_only_slow() {
                due = Instant::now() + LOOK_AGAIN;
            }
            let is_due = self.running.is_empty() || Instant::now() >= due;
            if is_due && let Some(attempt) = self.waiting.pop_front() {
                due = self.begin(attempt);
                continue;
            }
            if self.running.is_empty() {
                if self.is_outdated {
                    self.decide_again();
                    continue;
                }
                let error = self.most_telling.unwrap_or(DialError::NetworkUnreachable);
                self.director.with(|director, _| {
                    director.handle_outcome(None);
                    director.note_failure(&self.decision, error);
                });
                return Err(error);
            }
            tokio::select! {
                biased;
                // First: an answer over a link that is forbidden now must not be taken.
                Ok(()) = self.changes.changed() => {
                    if self.review() {
                        due = Instant::now();
                    }
                }
                Some((number, ended)) = self.running.next() => match ended {
                    Ok(Ok(stream)) => return Ok(self.won(number, stream)),
                    Ok(Err(error)) => {
                        self.lost(number, DialError::from_io(&error));
                        // At once, unless running attempts may still be answered: those have the
                        // rest of their time.
                        let patient = self.attempts().map(|it| it.at + it.patience).max();
                        due = due.min(patient.unwrap_or_else(Instant::now));
                    }
                    Err(Aborted) => {}
                },
                () = sleep_until(due), if !self.waiting.is_empty() => {}
            }
        }
    }

    /// Connects to the same destination over a suspect link that is due, to test whether it leads
    /// anywhere again. The race does not wait for it: an answered connection is closed at once.
    fn try_again(&mut self) {
        let Some(link) = self.decision.trial.take() else {
            return;
        };
        // Addresses with routes of their own may not exist over this link, and connections that are
        // left to the system must not be visible on this link.
        let asked = self.targets.addresses.iter().zip(&self.targets.by_routes);
        let mut asked = asked.filter(|(address, by_routes)| {
            let over_links = !**by_routes && self.decision.route(**address) == AddressRoute::Links;
            over_links && leads_to(&link, address.is_ipv6())
        });
        let Some(address) = asked.next().map(|(address, _)| *address) else {
            return;
        };
        let remote = SocketAddr::new(address, self.targets.request.port);
        trial::try_again(self.director, self.via, link, remote);
    }

    /// Begins an attempt; returns when the next one is due.
    fn begin(&mut self, attempt: Attempt) -> Instant {
        let number = self.begun.len();
        let Attempt {
            address,
            link,
            patience,
            ..
        } = attempt;
        let now = Instant::now();
        if link.is_none() {
            self.director
                .with(|director, now| director.note_by_system(now, &self.decision));
        }
        let (via, over) = (Arc::clone(self.via), link.clone());
        let remote = SocketAddr::new(address, self.targets.request.port);
        let asks_bond = self.asks_bond.contains(&address);
        let (connecting, abort) = abortable(async move {
            match over.as_deref() {
                Some(link) if asks_bond => via.connect_asking(link, remote).await,
                link => via.connect(link, remote).await,
            }
        });
        let open = |link: &Arc<Link>| self.director.open(&self.decision, link.index);
        self.begun.push(Begun {
            address,
            flow: link.as_ref().map(open),
            link,
            at: now,
            patience,
            abort,
            state: State::Running,
        });
        let connecting = async move { (number, connecting.await) };
        self.running.push(Box::pin(connecting));
        let reserve = self.waiting.front().map_or(Duration::ZERO, |it| it.reserve);
        now + patience.max(reserve)
    }

    fn lost(&mut self, number: usize, error: DialError) {
        self.most_telling = tell_more(self.most_telling, error);
        if let Some(begun) = self.begun.get_mut(number) {
            begun.state = State::Failed(error);
            if let Some(flow) = begun.flow.take() {
                flow.failed(error);
            }
            if let (DialError::ConnectionRefused, Some(link)) = (error, begun.index()) {
                let took = Some(begun.at.elapsed());
                self.director
                    .with(|director, now| director.handle_answer(now, link, took));
            }
        }
    }

    /// Ends the other attempts after the far end has answered. Overdue answers count against their
    /// links.
    fn won(mut self, number: usize, stream: V::Stream) -> Counted<V::Stream> {
        let Some(winner) = self.begun.get_mut(number) else {
            return Counted::new(stream, None);
        };
        let (link, flow, latency) = (winner.index(), winner.flow.take(), winner.at.elapsed());
        if let Some(flow) = &flow {
            flow.connected(Some(latency));
            self.director
                .with(|director, _| director.handle_outcome(Some(number == 0)));
        }
        for begun in self.begun.iter().filter(|it| it.index() != link) {
            if let (Some(other), true) = (begun.index(), begun.is_miss()) {
                let waited = begun.at.elapsed();
                self.director
                    .with(|director, now| director.handle_miss(now, other, waited));
            }
        }
        Counted::new(stream, flow)
    }

    /// Returns whether any attempt runs over a link that is not known to be dead.
    fn is_hopeful(&self) -> bool {
        let is_hopeful = |link| self.director.with(|director, _| director.is_hopeful(link));
        self.attempts().any(|it| it.index().is_none_or(is_hopeful))
    }

    /// Returns the running attempts.
    fn attempts(&self) -> impl Iterator<Item = &Begun> {
        let begun = self.begun.iter();
        begun.filter(|it| it.state == State::Running)
    }

    /// Returns whether any attempt runs over a link that answers late because of its load.
    fn is_only_slow(&self) -> bool {
        self.attempts().any(|it| {
            let link = it.index();
            link.is_some_and(|link| self.director.is_only_slow(link, it.at.elapsed()))
        })
    }

    /// Handles a change of links or rules: ends attempts that are forbidden now, and drops attempts
    /// that have not begun and have no way left. Decides again if the remaining attempts are
    /// without hope; returns whether it has.
    fn review(&mut self) -> bool {
        self.changes.mark_unchanged();
        self.is_outdated = true;
        let (director, targets) = (self.director, &self.targets);
        let outlook = |address, link: Option<&Arc<Link>>| {
            let mut all = targets.addresses.iter().zip(&targets.by_routes);
            // Addresses that follow the system's routes do not depend on links.
            if all.any(|(one, by_routes)| *one == address && *by_routes) {
                return Outlook::Open;
            }
            let link = link.map(Arc::as_ref);
            director.with(|director, _| director.outlook(&targets.request, address, link))
        };
        for begun in &mut self.begun {
            let is_running = begun.state == State::Running;
            if is_running && outlook(begun.address, begun.link.as_ref()) == Outlook::Forbidden {
                begun.state = State::Withdrawn;
                // Gives back the charge of the link.
                begun.flow = None;
                begun.abort.abort();
            }
        }
        let is_open = |it: &Attempt| outlook(it.address, it.link.as_ref()) == Outlook::Open;
        self.waiting.retain(is_open);
        let is_untried = self.begun.is_empty() && !self.waiting.is_empty();
        let is_lost = !is_untried && !self.is_hopeful();
        if is_lost {
            self.decide_again();
        }
        is_lost
    }

    /// Decides again, because the attempts so far are without hope.
    fn decide_again(&mut self) {
        self.is_outdated = false;
        let Targets {
            request,
            addresses,
            by_routes,
        } = &self.targets;
        self.decision = self.director.decide_again(request, &self.decision);
        let begun = self.begun.iter().filter(|it| it.state != State::Withdrawn);
        let tried: BTreeSet<_> = begun.map(|it| (it.address, it.index())).collect();
        self.waiting = plan(&self.decision, addresses, by_routes);
        self.waiting.retain(|attempt| {
            let link = attempt.link.as_ref().map(|link| link.index);
            !tried.contains(&(attempt.address, link))
        });
    }
}

impl Begun {
    fn index(&self) -> Option<LinkIndex> {
        self.link.as_ref().map(|link| link.index)
    }

    /// Returns whether the attempt counts against its link after another attempt was answered: it
    /// had no answer within its patience, or failed for lack of an answer.
    fn is_miss(&self) -> bool {
        match self.state {
            State::Running => self.at.elapsed() >= self.patience,
            State::Failed(error) => error.is_miss(),
            State::Withdrawn => false,
        }
    }
}

/// Interval at which a slow link is checked.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(super) mod tests;
