//! Policies that place the chunks of byte streams on channels.

mod auto;
mod backlog;
mod blest;
mod ecf;
mod express;
mod least_rtt;
mod load_index;
mod redundant;
mod round_robin;
mod weighted;

use std::fmt;
use std::str::FromStr;

use hawser_types::{ByteCount, ChannelId, Instant};

use crate::PathView;

/// The unit that is placed: one chunk that has not been given to a channel yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChunkUnit {
    /// Bytes of payload that wait; the chunk will be this long or shorter.
    pub size: ByteCount,
    /// More follows than `size`: the application writes as fast as it may.
    pub more: bool,
    /// How much more may be sent before what the peer and this host's memory allow is used up, this
    /// unit included; `None` where nothing bounds it.
    pub room: Option<ByteCount>,
    /// The chunk was sent before, on a channel that failed it.
    pub again: bool,
}

/// Decision on a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To this channel, which is ready.
    Channel(ChannelId, Reason),
    /// Nowhere yet: ask again when any channel becomes ready, or at the instant given.
    Wait(Option<Instant>, Reason),
    /// To both channels.
    Duplicate([ChannelId; 2], Reason),
}

/// Reason for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The channel could accept data.
    Writable,
    /// It was the channel's turn.
    Turn,
    /// It has the lowest round-trip time of those that are ready.
    LeastRtt,
    /// Every usable channel is busy.
    AllBusy,
    /// It is another channel's turn, and that one is busy.
    NotItsTurn,
    /// Two links carry it, the first to arrive counts.
    Redundant,
    /// It arrives there first.
    Earliest,
    /// A quicker channel is busy, and waiting for it is quicker.
    QuickerSoon,
    /// Anywhere else than on a channel that is busy it would use up the window before it arrives,
    /// and so stop the quicker ones.
    WouldBlock,
    /// To learn whether the link has recovered.
    Probe,
    /// The user or the governor allows none of those that are ready.
    NotAllowed,
}

/// A policy for chunks.
///
/// `paths` holds the usable channels in ascending order of their number. A policy keeps its own
/// state (whose turn it is) but reads everything else from the view. It has to choose a channel
/// that is ready, or wait.
pub trait ChunkScheduler: fmt::Debug + Send {
    /// Returns the decision on a unit.
    fn select(&mut self, now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision;

    /// Which policy this is.
    fn policy(&self) -> ChunkPolicy;
}

/// The policies for chunks, by the names that users choose them with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ChunkPolicy {
    /// Whichever channel can accept data gets the next chunk. Source: PATTHEL §III.B.
    Backlog,
    /// Channels take turns, one chunk each. Source: DBAS §II.D.
    RoundRobin,
    /// Channels take turns in proportion to their delivery rate times the user's weight.
    /// Source: DBAS §II.D.
    WeightedRoundRobin,
    /// The ready channel with the lowest round-trip time.
    LeastRtt,
    /// Channels take turns by throughput and price, with the user's weights. Source: BATCP §3.5.
    LoadIndex,
    /// Earliest completion first. Source: Lim and others, CoNEXT 2017.
    Ecf,
    /// Blocking estimation. Source: Ferlin and others, IFIP Networking 2016.
    Blest,
    /// Every chunk over two links.
    Redundant,
    /// The channel over which the chunk arrives earliest, within the governor's limits.
    #[default]
    Auto,
}

impl ChunkPolicy {
    /// Every policy, in the order in which help texts list them.
    pub const ALL: [Self; 9] = [
        Self::Backlog,
        Self::RoundRobin,
        Self::WeightedRoundRobin,
        Self::LeastRtt,
        Self::LoadIndex,
        Self::Ecf,
        Self::Blest,
        Self::Redundant,
        Self::Auto,
    ];

    /// Makes the policy's scheduler.
    #[doc(hidden)]
    pub fn scheduler(self) -> Box<dyn ChunkScheduler> {
        match self {
            Self::Backlog => Box::new(backlog::Backlog::default()),
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::WeightedRoundRobin => Box::new(weighted::WeightedRoundRobin::default()),
            Self::LeastRtt => Box::new(least_rtt::LeastRtt),
            Self::LoadIndex => Box::new(load_index::LoadIndex::default()),
            Self::Ecf => Box::new(ecf::Ecf::default()),
            Self::Blest => Box::new(blest::Blest::default()),
            Self::Redundant => Box::new(redundant::Redundant),
            Self::Auto => Box::new(auto::Auto::default()),
        }
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::RoundRobin => "round-robin",
            Self::WeightedRoundRobin => "weighted-round-robin",
            Self::LeastRtt => "least-rtt",
            Self::LoadIndex => "load-index",
            Self::Ecf => "ecf",
            Self::Blest => "blest",
            Self::Redundant => "redundant",
            Self::Auto => "auto",
        }
    }
}

/// The policy for what must not wait behind bulk: the quickest ready channel, and for small
/// chunks the quickest of another link as well.
pub fn express_scheduler() -> Box<dyn ChunkScheduler> {
    Box::new(express::Express)
}

impl fmt::Display for ChunkPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ChunkPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// No policy has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scheduler `{}`: allowed are", self.0)?;
        ChunkPolicy::ALL
            .iter()
            .try_for_each(|policy| write!(f, " {policy}"))
    }
}

impl std::error::Error for UnknownPolicy {}

/// The usable channels: those that are not suspect, or all when every one is.
fn usable(paths: &[PathView]) -> impl Iterator<Item = &PathView> + Clone {
    let all_suspect = paths.iter().all(|path| path.suspect);
    paths
        .iter()
        .filter(move |path| all_suspect || !path.suspect)
}

#[cfg(test)]
mod tests;
