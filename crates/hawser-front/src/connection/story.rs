//! What was decided of the latest connections and what became of them, for those who ask why.
//!
//! Only facts are kept, in bounded memory; words are made of them when somebody asks.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Link;
use hawser_policy::{Protocol, RuleSet, Verdict};
use hawser_sched::connection::{ConnectionPolicy, Demand, LinkView, Reason};
use hawser_types::{ByteCount, Instant};

use super::Origin;
use super::decision::Standing;
use crate::transport::DialError;

/// One connection: what was known when it was decided where it goes, what was chosen, and its end.
#[derive(Clone, Debug)]
pub struct Story {
    /// Its number; later ones have higher ones, the first has 1.
    pub number: u64,
    /// When it was decided, by the director's clock.
    pub begun: Instant,
    /// Who wanted it, and where to.
    pub subject: Subject,
    /// The policy that chose.
    pub policy: ConnectionPolicy,
    /// Why the first candidate is the first; `None` when there was nothing to choose.
    pub reason: Option<Reason>,
    /// What it was expected to need.
    pub demand: Demand,
    /// What the rules made of it, and the rules.
    pub verdict: Verdict,
    /// The rules that the verdict's places are in.
    pub rules: Arc<RuleSet>,
    /// The links that it could take, in the order in which they were to be tried, as they were then.
    pub candidates: Vec<Promise>,
    /// Who else was left to say where it goes.
    pub left_to: Option<LeftTo>,
    /// Whether the kernel's program chose, by the same policy; what stands here of the candidates is
    /// what the director knew as it heard of that.
    pub is_kernels: bool,
    /// The links changed so often while it was being made that it was decided anew.
    pub decided_again: u32,
    /// What was tried, in this order.
    pub tries: Vec<Try>,
    /// Why it never came about.
    pub failed: Option<DialError>,
}

/// Who wanted a connection, and where to; what is not known is `None`.
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
    /// Whether it was to be kept out while those before it had a chance.
    pub is_reserve: bool,
    /// Whether it had not answered lately.
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
    /// The link, where one called `gateway` stands for the gateway; `None`: as the system's routes
    /// have it, where nothing more is known of it.
    pub link: Option<Arc<Link>>,
    /// How long after the decision it began.
    pub after: Duration,
    /// What became of it.
    pub state: TryState,
    /// What it has sent and received.
    pub moved: [ByteCount; 2],
    /// For how long it was connected, or waited for an answer, until now or its end.
    pub lasted: Duration,
}

/// What became of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryState {
    /// Nobody knows: it goes as the system has it.
    Untold,
    /// There is no answer yet.
    Waiting,
    /// It was refused, or there is no way.
    Failed(DialError),
    /// It was given up without an answer: another was answered first, or nobody waited any more.
    GivenUp,
    /// It is open.
    Open,
    /// It was open and has ended.
    Ended,
}

/// The place of a try in the stories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TryId {
    story: u64,
    place: usize,
}

/// The latest stories.
#[derive(Debug)]
pub(super) struct Stories {
    kept: VecDeque<Story>,
    next: u64,
}

impl Subject {
    pub(super) fn of(origin: &Origin) -> Self {
        Self {
            protocol: origin.protocol,
            remote: origin.remote,
            port: origin.port,
            domain: origin.domain.clone(),
            program: origin.program.clone(),
            user: origin.user,
        }
    }
}

impl Promise {
    pub(super) fn new(link: &Arc<Link>, view: LinkView, standing: Standing) -> Self {
        Self {
            link: Arc::clone(link),
            view,
            is_reserve: standing == Standing::Reserve,
            is_suspect: standing == Standing::Suspect,
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
    pub(super) const fn new() -> Self {
        Self {
            kept: VecDeque::new(),
            next: 1,
        }
    }

    /// Begins one, whose number is given; the oldest makes room for it.
    pub(super) fn begin(&mut self, story: Story) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.kept.len() >= MAX_STORIES {
            self.kept.pop_front();
        }
        self.kept.push_back(Story { number, ..story });
        number
    }

    /// The story with this number, if it is not too old.
    pub(super) fn find(&mut self, number: u64) -> Option<&mut Story> {
        let first = self.kept.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.kept.get_mut(place)
    }

    /// The latest number that was given.
    pub(super) const fn latest(&self) -> u64 {
        self.next - 1
    }

    /// All that are kept, the oldest first.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Story> {
        self.kept.iter()
    }

    /// Something is tried; `None` where there have been too many tries to keep.
    pub(super) fn try_over(
        &mut self,
        number: u64,
        link: Option<Arc<Link>>,
        now: Instant,
    ) -> Option<TryId> {
        let story = self.find(number)?;
        let place = story.tries.len();
        if place >= MAX_TRIES {
            return None;
        }
        story.tries.push(Try {
            state: match link {
                None => TryState::Untold,
                Some(_) => TryState::Waiting,
            },
            link,
            after: now.since(story.begun),
            moved: [ByteCount::ZERO; 2],
            lasted: Duration::ZERO,
        });
        Some(TryId {
            story: number,
            place,
        })
    }

    /// What has become of a try.
    pub(super) fn find_try(&mut self, id: TryId) -> Option<&mut Try> {
        self.find(id.story)?.tries.get_mut(id.place)
    }
}

/// Each takes less than 2 KB on a machine with four links.
const MAX_STORIES: usize = 256;
/// The dialer begins no more for one decision.
const MAX_TRIES: usize = 32;
/// Links in one story.
pub(super) const MAX_PROMISES: usize = 16;
