//! The latest decisions and what became of them, for users who ask why.
//!
//! Only facts are kept, in bounded memory; text is made of them when a user asks.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::{Protocol, RuleSet, Verdict};
use hawser_sched::connection::{ConnectionPolicy, Demand, LinkView, Reason};
use hawser_types::{ByteCount, DialError, Instant, Link};

use super::request::ConnectionRequest;

/// One connection: what was known when it was decided, what was chosen, and its end.
#[derive(Clone, Debug)]
pub struct Story {
    /// Its number; later ones have higher ones, the first has 1.
    pub number: u64,
    /// The time of the decision, by the director's clock.
    pub begun: Instant,
    /// Who wanted it, and where to.
    pub subject: Subject,
    /// The policy that chose.
    pub policy: ConnectionPolicy,
    /// The reason for the first candidate; `None` when there was nothing to choose.
    pub reason: Option<Reason>,
    /// What it was expected to need.
    pub demand: Demand,
    /// What the rules made of it, and the rules.
    pub verdict: Verdict,
    /// The rules that the verdict's places are in.
    pub rules: Arc<RuleSet>,
    /// The links that it could take, in the order of trying, as they were then.
    pub candidates: Vec<Promise>,
    /// Who else was left to say where it goes.
    pub left_to: Option<LeftTo>,
    /// True if the kernel's program chose, by the same policy. The candidates are then those that
    /// the director knew when it heard of that.
    pub is_kernels: bool,
    /// Number of times it was decided anew, since links changed while it was being made.
    pub decided_again: u32,
    /// What was tried, in this order.
    pub tries: Vec<Try>,
    /// The reason why it never came about.
    pub failed: Option<DialError>,
}

/// The application that wanted a connection, and where to; unknown facts are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// What it speaks.
    pub protocol: Protocol,
    /// The address that it goes to.
    pub remote: Option<IpAddr>,
    /// The port that it goes to.
    pub port: u16,
    /// The name that the application asked for.
    pub domain: Option<String>,
    /// The process's name.
    pub program: Option<String>,
    /// The user that it runs as.
    pub user: Option<u32>,
}

/// What a link promised a connection.
#[derive(Clone, Debug)]
pub struct Promise {
    /// The link.
    pub link: Arc<Link>,
    /// Its rates, latency and load, as the policy saw them.
    pub view: LinkView,
    /// True if it was to be kept out while those before it had a chance.
    pub is_reserve: bool,
    /// True if it had not answered lately.
    pub is_suspect: bool,
}

/// Who says where a connection goes, instead of the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftTo {
    /// The system: resolvers are reached as it has it.
    Resolver,
    /// The VPN of this name, which takes all traffic.
    Tunnel(String),
    /// The session with the peer at this address.
    Peer(IpAddr),
    /// The session with the gateway, for this reason: goes on after "since".
    Gateway(&'static str),
}

/// One try to connect.
#[derive(Clone, Debug)]
pub struct Try {
    /// The way that was tried.
    pub route: TryRoute,
    /// Time from the decision to its beginning.
    pub after: Duration,
    /// What became of it.
    pub state: TryState,
    /// What it has sent and received.
    pub moved: [ByteCount; 2],
    /// Time for which it was connected, or waited for an answer, until now or its end.
    pub lasted: Duration,
}

/// The way of one try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TryRoute {
    /// A link.
    Link(Arc<Link>),
    /// The gateway.
    Gateway,
    /// As the system's routes have it, where nothing more is known of it.
    System,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryState {
    /// Unknown: it goes as the system has it.
    Untold,
    /// There is no answer yet.
    Waiting,
    /// It was refused, or there is no way.
    Failed(DialError),
    /// It was given up without an answer: another was answered first, or the application gave up.
    GivenUp,
    /// It is open.
    Open,
    /// It was open and has ended.
    Ended,
}

/// The place of a try in the stories.
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
    /// The try that was answered; the latest where none was.
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

    /// Begins one, whose number is given; the oldest makes room for it.
    pub(crate) fn begin(&mut self, story: Story) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.kept.len() >= MAX_STORIES {
            self.kept.pop_front();
        }
        self.kept.push_back(Story { number, ..story });
        number
    }

    /// The story with this number, if it is not too old.
    pub(crate) fn find(&mut self, number: u64) -> Option<&mut Story> {
        let first = self.kept.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.kept.get_mut(place)
    }

    /// The latest number that was given.
    pub(crate) const fn latest(&self) -> u64 {
        self.next - 1
    }

    /// All that are kept, the oldest first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Story> {
        self.kept.iter()
    }

    /// Something is tried; `None` where there have been too many tries to keep.
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

    /// Links have changed, and the connection is decided anew.
    pub(crate) fn decided_again(&mut self, number: u64) {
        if let Some(story) = self.find(number) {
            story.decided_again = story.decided_again.saturating_add(1);
        }
    }

    /// A try was answered.
    pub(crate) fn answer_try(&mut self, id: Option<TryId>) {
        if let Some(it) = self.find_try(id) {
            it.state = TryState::Open;
        }
    }

    /// A try was refused, or there is no way.
    pub(crate) fn fail_try(&mut self, id: Option<TryId>, error: DialError) {
        if let Some(it) = self.find_try(id) {
            it.state = TryState::Failed(error);
        }
    }

    /// Takes in how far a try has come.
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

    /// A try has ended, as a connection or before it was one.
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

/// Each takes less than 2 KB on a machine with four links.
const MAX_STORIES: usize = 256;
/// The dialer begins no more for one decision.
const MAX_TRIES: usize = 32;
/// Links in one story.
pub(crate) const MAX_PROMISES: usize = 16;
