//! Stories: the latest decisions and their outcomes, for users who ask why.
//!
//! Only facts are kept, in bounded memory; the text is created when a user asks.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{Protocol, RuleSet, Verdict};
use hawser_sched::connection::{ConnectionPolicy, Demand, LinkView, Reason};
use hawser_types::{ByteCount, DialError, Instant, Link};

use super::request::ConnectionRequest;

/// One connection: the facts at its decision, the choice, and the outcome.
#[derive(Clone, Debug)]
pub struct Story {
    /// Number of the story; numbers rise and start with 1.
    pub number: u64,
    /// Time of the decision, by the director's clock.
    pub begun: Instant,
    /// Application and destination.
    pub subject: Subject,
    /// The policy that chose.
    pub policy: ConnectionPolicy,
    /// Reason for the first candidate; `None` if there was no choice.
    pub reason: Option<Reason>,
    /// Expected needs.
    pub demand: Demand,
    /// Verdict of the rules.
    pub verdict: Verdict,
    /// Rules to which the verdict refers.
    pub rules: Arc<RuleSet>,
    /// Possible links, in the order of trying, in their state at that time.
    pub candidates: Vec<Promise>,
    /// Party that routed the connection instead.
    pub left_to: Option<LeftTo>,
    /// True if the kernel's program chose, by the same policy. The candidates are then those that
    /// the director knew when it received the report.
    pub is_kernels: bool,
    /// Number of repeated decisions, because links changed while the connection was being opened.
    pub decided_again: u32,
    /// Attempts, in order.
    pub tries: Vec<Try>,
    /// Reason why it was never established.
    pub failed: Option<DialError>,
}

/// Application that wanted a connection, and its destination; unknown facts are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The protocol.
    pub protocol: Protocol,
    /// Destination address.
    pub remote: Option<IpAddr>,
    /// Destination port.
    pub port: u16,
    /// Name that the application asked for.
    pub domain: Option<String>,
    /// Name of the process.
    pub program: Option<String>,
    /// User that the process runs as.
    pub user: Option<u32>,
}

/// Prospects of a link for a connection.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The link.
    pub link: Arc<Link>,
    /// Its rates, latency and load, as the policy saw them.
    pub view: LinkView,
    /// True if it was not used while earlier candidates had a chance.
    pub is_reserve: bool,
    /// True if it had not answered lately.
    pub is_suspect: bool,
}

/// Party that routes a connection instead of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftTo {
    /// The system: resolvers are reached by its routes.
    Resolver,
    /// The VPN of this name, which takes all traffic.
    Tunnel(String),
    /// The session with the peer at this address.
    Peer(IpAddr),
    /// The session with the gateway, for this reason: it continues a sentence after "since".
    Gateway(&'static str),
}

/// One attempt to connect.
#[derive(Clone, Debug)]
pub struct Try {
    /// Route of the attempt.
    pub route: TryRoute,
    /// Time from the decision to the attempt.
    pub after: Duration,
    /// Outcome of the attempt.
    pub state: TryState,
    /// Bytes sent and received.
    pub moved: [ByteCount; 2],
    /// Time for which it was connected or waited for an answer, until now or until its end.
    pub lasted: Duration,
}

/// Route of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryRoute {
    /// A link.
    Link(Arc<Link>),
    /// The gateway.
    Gateway,
    /// The system's routes; the outcome is unknown.
    System,
}

/// Outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryState {
    /// Unknown: the system's routes apply.
    Untold,
    /// There is no answer yet.
    Waiting,
    /// It was refused, or there was no route.
    Failed(DialError),
    /// It was given up without an answer: another was answered first, or the application gave up.
    GivenUp,
    /// It is open.
    Open,
    /// It was open and has ended.
    Ended,
}

/// Identity of an attempt in the stories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TryId {
    story: u64,
    place: usize,
}

/// The latest stories.
#[derive(Debug)]
pub(crate) struct Stories {
    kept: VecDeque<Story>,
    next: u64,
}

impl Subject {
    pub(crate) fn of(request: &ConnectionRequest) -> Self {
        Self {
            protocol: request.protocol,
            remote: request.remote,
            port: request.port,
            domain: request.domain.clone(),
            program: request.program.clone(),
            user: request.user,
        }
    }
}

impl Story {
    /// Returns the attempt that was answered; the latest if none was.
    pub fn outcome(&self) -> Option<&Try> {
        let is_answered = |it: &&Try| matches!(it.state, TryState::Open | TryState::Ended);
        let answered = self.tries.iter().find(is_answered);
        answered.or(self.tries.last())
    }
}

impl Stories {
    pub(crate) const fn new() -> Self {
        Self {
            kept: VecDeque::new(),
            next: 1,
        }
    }

    /// Begins a story and returns its number; a full list evicts its oldest story.
    pub(crate) fn begin(&mut self, story: Story) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.kept.len() >= MAX_STORIES {
            self.kept.pop_front();
        }
        self.kept.push_back(Story { number, ..story });
        number
    }

    /// Returns the story with this number, if it was not evicted.
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Story> {
        let first = self.kept.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.kept.get_mut(place)
    }

    /// Returns the latest assigned number.
    pub(crate) const fn latest(&self) -> u64 {
        self.next - 1
    }

    /// Returns all kept stories, the oldest first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Story> {
        self.kept.iter()
    }

    /// Records an attempt; `None` if there are too many attempts to keep.
    pub(crate) fn try_route(
        &mut self,
        number: u64,
        route: TryRoute,
        now: Instant,
    ) -> Option<TryId> {
        let story = self.find(number)?;
        let place = story.tries.len();
        if place >= MAX_TRIES {
            return None;
        }
        story.tries.push(Try {
            state: match route {
                TryRoute::System => TryState::Untold,
                TryRoute::Link(_) | TryRoute::Gateway => TryState::Waiting,
            },
            route,
            after: now.since(story.begun),
            moved: [ByteCount::ZERO; 2],
            lasted: Duration::ZERO,
        });
        Some(TryId {
            story: number,
            place,
        })
    }

    /// Records that the connection was decided again after a change of links.
    pub(crate) fn decided_again(&mut self, number: u64) {
        if let Some(story) = self.find(number) {
            story.decided_again = story.decided_again.saturating_add(1);
        }
    }

    /// Records that an attempt was answered.
    pub(crate) fn answer_try(&mut self, id: Option<TryId>) {
        if let Some(it) = self.find_try(id) {
            it.state = TryState::Open;
        }
    }

    /// Records that an attempt was refused, or had no route.
    pub(crate) fn fail_try(&mut self, id: Option<TryId>, error: DialError) {
        if let Some(it) = self.find_try(id) {
            it.state = TryState::Failed(error);
        }
    }

    /// Updates the progress of an attempt.
    pub(crate) fn update_try(
        &mut self,
        id: Option<TryId>,
        moved: [ByteCount; 2],
        lasted: Duration,
    ) {
        if let Some(it) = self.find_try(id) {
            (it.moved, it.lasted) = (moved, lasted);
        }
    }

    /// Records the end of an attempt, whether or not it was connected.
    pub(crate) fn end_try(&mut self, id: Option<TryId>, moved: [ByteCount; 2], lasted: Duration) {
        self.update_try(id, moved, lasted);
        if let Some(it) = self.find_try(id) {
            it.state = match it.state {
                TryState::Open => TryState::Ended,
                TryState::Waiting => TryState::GivenUp,
                other => other,
            };
        }
    }

    fn find_try(&mut self, id: Option<TryId>) -> Option<&mut Try> {
        let id = id?;
        self.find(id.story)?.tries.get_mut(id.place)
    }
}

/// Each story takes less than 2 KB on a machine with four links.
const MAX_STORIES: usize = 256;
/// The dialer starts no more attempts for one decision.
const MAX_TRIES: usize = 32;
/// Limit of links in one story.
pub(crate) const MAX_PROMISES: usize = 16;
