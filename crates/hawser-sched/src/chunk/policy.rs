use std::fmt;
use std::str::FromStr;

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
