//! One destination, tried over several links and addresses until one answers.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use hawser_director::{Attempt, ConnectionRequest, LinkDecision, Route, leads_to, plan};
use hawser_types::LinkIndex;
use tokio::time::{Instant, sleep_until};

use super::counted::Counted;
use super::via::Via;
use super::{Flow, SharedDirector, trial};
use crate::connect::tell_more;
use crate::transport::DialError;

/// The attempts for one destination.
///
/// One begins as soon as those before it have failed, or have had their time, or go over links of
/// which nothing is to be hoped any more. They have more time while their links are slow and alive:
/// in a queue nobody comes sooner for going elsewhere, and the policy knew of it. The first to be
/// answered ends the others.
pub(super) struct Race<'a, V: Via> {
    director: &'a SharedDirector,
    via: &'a Arc<V>,
    request: ConnectionRequest,
    addresses: Vec<IpAddr>,
    by_routes: Vec<bool>,
    decision: LinkDecision,
    waiting: VecDeque<Attempt>,
    begun: Vec<Begun>,
    running: FuturesUnordered<BoxFuture<'static, (usize, io::Result<V::Stream>)>>,
    most_telling: Option<DialError>,
}

/// An attempt that has begun.
struct Begun {
    address: IpAddr,
    link: Option<LinkIndex>,
    at: Instant,
    patience: Duration,
    flow: Option<Flow>,
    /// Why it failed; `None` while it runs.
    failed: Option<DialError>,
}

impl<'a, V: Via> Race<'a, V> {
    /// `addresses` in the order in which to try them, of which those in `by_routes` go as the
    /// system has it.
    pub(super) fn new(
        director: &'a SharedDirector,
        via: &'a Arc<V>,
        request: ConnectionRequest,
        (addresses, by_routes): (Vec<IpAddr>, Vec<bool>),
        decision: LinkDecision,
    ) -> Self {
        let waiting = plan(&decision, &addresses, &by_routes);
        Self {
            director,
            via,
            request,
            addresses,
            by_routes,
            decision,
            waiting,
            begun: Vec::new(),
            running: FuturesUnordered::new(),
            most_telling: None,
        }
    }

    /// Tries until one is answered or all have failed.
    pub(super) async fn run(mut self) -> Result<Counted<V::Stream>, DialError> {
        let mut changes = self.director.changes();
        self.try_again();
        let mut due = Instant::now();
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
                let error = self.most_telling.unwrap_or(DialError::NetworkUnreachable);
                self.director.with(|director, _| {
                    director.handle_outcome(None);
                    director.note_failure(&self.decision, error);
                });
                return Err(error);
            }
            tokio::select! {
                biased;
                Some((number, ended)) = self.running.next() => match ended {
                    Ok(stream) => return Ok(self.won(number, stream)),
                    Err(error) => {
                        self.lost(number, DialError::from_io(&error));
                        due = due.min(self.next_after_failure());
                    }
                },
                Ok(()) = changes.changed() => {
                    if !self.is_hopeful() {
                        self.decide_again();
                        due = Instant::now();
                    }
                }
                () = sleep_until(due), if !self.waiting.is_empty() => {}
            }
        }
    }

    /// Asks a suspect link that is due for the same destination, to see whether it leads anywhere
    /// again. Nobody waits for it: where it answers, it is closed at once.
    fn try_again(&mut self) {
        let Some(link) = self.decision.trial.take() else {
            return;
        };
        // What goes by routes of its own may not be there over this link, and what is left to the
        // system is not to be seen there.
        let asked = self.addresses.iter().zip(&self.by_routes);
        let mut asked = asked.filter(|(address, by_routes)| {
            let over_links = !**by_routes && self.decision.route(**address) == Route::Links;
            over_links && leads_to(&link, address.is_ipv6())
        });
        let Some(address) = asked.next().map(|(address, _)| *address) else {
            return;
        };
        let remote = SocketAddr::new(address, self.request.port);
        trial::try_again(self.director, self.via, link, remote);
    }

    /// Begins an attempt; when the next one is due.
    fn begin(&mut self, attempt: Attempt) -> Instant {
        let number = self.begun.len();
        let link = attempt.link.as_ref().map(|link| link.index);
        let now = Instant::now();
        if link.is_none() {
            self.director
                .with(|director, now| director.note_by_system(now, &self.decision));
        }
        self.begun.push(Begun {
            address: attempt.address,
            link,
            at: now,
            patience: attempt.patience,
            flow: link.map(|link| self.director.open(&self.decision, link)),
            failed: None,
        });
        let (via, port) = (Arc::clone(self.via), self.request.port);
        self.running.push(Box::pin(async move {
            let address = SocketAddr::new(attempt.address, port);
            let connected = via.connect(attempt.link.as_deref(), address).await;
            (number, connected)
        }));
        let reserve = self.waiting.front().map_or(Duration::ZERO, |it| it.reserve);
        now + attempt.patience.max(reserve)
    }

    /// A failure makes the next attempt due at once, unless others are running that may still be
    /// answered: those have the rest of their time.
    fn next_after_failure(&self) -> Instant {
        let running = self.begun.iter().filter(|it| it.failed.is_none());
        let patient = running.map(|it| it.at + it.patience).max();
        patient.unwrap_or_else(Instant::now)
    }

    fn lost(&mut self, number: usize, error: DialError) {
        self.most_telling = tell_more(self.most_telling, error);
        if let Some(begun) = self.begun.get_mut(number) {
            begun.failed = Some(error);
            if let Some(flow) = begun.flow.take() {
                flow.failed(error);
            }
            if let (DialError::ConnectionRefused, Some(link)) = (error, begun.link) {
                let took = Some(begun.at.elapsed());
                self.director
                    .with(|director, now| director.handle_answer(now, link, took));
            }
        }
    }

    /// The far end has answered: the others are given up, and what they were not answered in time
    /// speaks against their links.
    fn won(mut self, number: usize, stream: V::Stream) -> Counted<V::Stream> {
        let Some(winner) = self.begun.get_mut(number) else {
            return Counted::new(stream, None);
        };
        let (link, flow, latency) = (winner.link, winner.flow.take(), winner.at.elapsed());
        if let Some(flow) = &flow {
            flow.connected(Some(latency));
            self.director
                .with(|director, _| director.handle_outcome(Some(number == 0)));
        }
        for begun in self.begun.iter().filter(|it| it.link != link) {
            if let (Some(other), true) = (begun.link, begun.is_miss()) {
                let waited = begun.at.elapsed();
                self.director
                    .with(|director, now| director.handle_miss(now, other, waited));
            }
        }
        Counted::new(stream, flow)
    }

    /// Whether any attempt runs over a link that is not known to be dead.
    fn is_hopeful(&self) -> bool {
        let is_hopeful = |link| self.director.with(|director, _| director.is_hopeful(link));
        let mut running = self.begun.iter().filter(|it| it.failed.is_none());
        running.any(|it| it.link.is_none_or(is_hopeful))
    }

    /// Whether any attempt runs over a link that answers late since it has so much to carry.
    fn is_only_slow(&self) -> bool {
        let mut running = self.begun.iter().filter(|it| it.failed.is_none());
        running.any(|it| {
            let link = it.link;
            link.is_some_and(|link| self.director.is_only_slow(link, it.at.elapsed()))
        })
    }

    /// The links have changed under attempts that are now without hope.
    fn decide_again(&mut self) {
        self.decision = self.director.decide_again(&self.request, &self.decision);
        let tried: BTreeSet<_> = self.begun.iter().map(|it| (it.address, it.link)).collect();
        self.waiting = plan(&self.decision, &self.addresses, &self.by_routes);
        self.waiting.retain(|attempt| {
            let link = attempt.link.as_ref().map(|link| link.index);
            !tried.contains(&(attempt.address, link))
        });
    }
}

impl Begun {
    /// Whether it should have been answered by now, since another was: it was silent for longer
    /// than its link ever takes, or the way there is closed.
    fn is_miss(&self) -> bool {
        match self.failed {
            None => self.at.elapsed() >= self.patience,
            Some(error) => error.is_miss(),
        }
    }
}

/// How often a link that is slow is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(super) mod tests;
