use std::fmt;
use std::str::FromStr;

/// The policies for packets, by the names that users choose them with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum PacketPolicy {
    /// Paths take turns by their rates; the far end hands packets on as they arrive.
    /// Source: MMS §II.D, eq. 1.
    WeightedRoundRobin,
    /// The same, and the far end puts the packets of a flow in order. Source: MMS §II.D (WRRB).
    WeightedRoundRobinWithBuffer,
    /// Each burst leaves so that it arrives in order. Source: MMS §II.D (IKR).
    InOrder,
    /// The path with the lowest round-trip time that has room.
    LeastRtt,
    /// Small and real-time packets over two links, others as by `auto`.
    Redundant,
    /// Where the packet arrives first, and each flow on one path while that can carry it.
    #[default]
    Auto,
}

impl PacketPolicy {
    /// Every policy, in the order in which help texts list them.
    pub const ALL: [Self; 6] = [
        Self::WeightedRoundRobin,
        Self::WeightedRoundRobinWithBuffer,
        Self::InOrder,
        Self::LeastRtt,
        Self::Redundant,
        Self::Auto,
    ];

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::WeightedRoundRobin => "wrr",
            Self::WeightedRoundRobinWithBuffer => "wrrb",
            Self::InOrder => "ikr",
            Self::LeastRtt => "least-rtt",
            Self::Redundant => "redundant",
            Self::Auto => "auto",
        }
    }

    /// Tells whether the far end is to put the packets of a flow in order.
    pub const fn is_resequenced(self) -> bool {
        !matches!(self, Self::WeightedRoundRobin)
    }
}

impl fmt::Display for PacketPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PacketPolicy {
    type Err = UnknownPacketPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPacketPolicy> {
        let mut all = Self::ALL.into_iter();
        all.find(|policy| policy.name() == name)
            .ok_or_else(|| UnknownPacketPolicy(name.to_owned()))
    }
}

/// No policy for packets has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPacketPolicy(String);

impl fmt::Display for UnknownPacketPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown packet policy `{}`: allowed are", self.0)?;
        let mut all = PacketPolicy::ALL.iter();
        all.try_for_each(|policy| write!(f, " {policy}"))
    }
}

impl std::error::Error for UnknownPacketPolicy {}
