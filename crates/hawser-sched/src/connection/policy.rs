use std::fmt;
use std::str::FromStr;

/// The policies for connections, by the names that users choose them with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ConnectionPolicy {
    /// Every connection over the same link, the fastest, as systems without bonding have it.
    OnlyOne,
    /// Links take turns.
    RoundRobin,
    /// Links take turns in proportion to their rates.
    WeightedRoundRobin,
    /// The link on which everything is finished soonest.
    MaxThroughput,
    /// The same for what is long; what is short goes where it is answered soonest.
    #[default]
    Auto,
}

impl ConnectionPolicy {
    /// Every policy.
    pub const ALL: [Self; 5] = [
        Self::OnlyOne,
        Self::RoundRobin,
        Self::WeightedRoundRobin,
        Self::MaxThroughput,
        Self::Auto,
    ];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnlyOne => "only-one",
            Self::RoundRobin => "round-robin",
            Self::WeightedRoundRobin => "weighted-round-robin",
            Self::MaxThroughput => "max-throughput",
            Self::Auto => "auto",
        }
    }
}

impl fmt::Display for ConnectionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ConnectionPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.name() == name)
            .ok_or_else(|| UnknownPolicy(name.to_owned()))
    }
}

/// No policy for connections has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scheduler for connections `{0}`: allowed are only-one round-robin weighted-round-robin max-throughput auto"
)]
pub struct UnknownPolicy(String);
