//! Policies that place whole connections on links, towards servers that know nothing of Hawser.
//!
//! A connection stays on its link for life, so what it will need counts as much as what the links
//! can do. Sizes and rates are whole numbers throughout: the same decisions are taken in the
//! kernel, where there is nothing else, and a test compares the two.
//!
//! Source: DBAS §II.D, the connection-oriented schedulers.

mod auto;
mod gateway;
mod max_throughput;
mod only_one;
mod round_robin;
mod weighted;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};

pub use auto::SHORT;
pub use gateway::{By, GatewayUse, GatewayView, Reached, UnknownGatewayUse, choose_way};

/// Kind of a connection.
///
/// Source: DBAS §II.B.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Class {
    /// People hear or see every delay: calls, games, remote desktops.
    RealTime,
    /// People wait for each answer: web pages, shells, name lookups.
    Interactive,
    /// Nobody waits for a single packet: downloads, backups, updates.
    Bulk,
    /// Not known.
    #[default]
    Unknown,
}

/// Expected need of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Demand {
    /// Its kind.
    pub class: Class,
    /// Bytes that it will send, in all.
    pub up: ByteCount,
    /// Bytes that it will receive, in all.
    pub down: ByteCount,
}

/// Bytes that the connections on a link have still to carry, as an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// Connections that are open and move data, or have just begun.
    pub connections: u32,
    /// Bytes still to be sent.
    pub up: ByteCount,
    /// Bytes still to be received.
    pub down: ByteCount,
}

/// One link that a connection may take at one moment, as far as a policy may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkView {
    /// The link.
    pub link: LinkIndex,
    /// Rate that it can send; zero while unknown.
    pub up: Rate,
    /// Rate that it can receive; zero while unknown.
    pub down: Rate,
    /// Its round-trip time as it is now, queues included; zero while unknown.
    pub latency: Duration,
    /// Load of the connections that it carries already.
    pub load: Load,
}

/// Place that a connection goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The link.
    pub link: LinkIndex,
    /// Reason for this one.
    pub reason: Reason,
}

/// Reason for choosing a link for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It is the fastest, whatever it carries.
    Fastest,
    /// It was its turn.
    Turn,
    /// Everything that is open, and this, is finished soonest.
    FinishesFirst,
    /// It answers soonest as it is loaded now.
    AnswersFirst,
}

/// A policy for connections.
///
/// `links` holds the links that the connection may take, in ascending order of their index; what
/// the user's rules forbid, or what is known to be dead, is left out before. A policy keeps its own
/// state (whose turn it is) and reads everything else from the view.
pub trait ConnectionScheduler: fmt::Debug + Send {
    /// Which link the connection takes; `None` when there is none.
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice>;

    /// Which policy this is.
    fn policy(&self) -> ConnectionPolicy;
}

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

    /// Makes the policy's scheduler.
    pub fn scheduler(self) -> Box<dyn ConnectionScheduler> {
        match self {
            Self::OnlyOne => Box::new(only_one::OnlyOne),
            Self::RoundRobin => Box::new(round_robin::RoundRobin::default()),
            Self::WeightedRoundRobin => Box::new(weighted::WeightedRoundRobin::default()),
            Self::MaxThroughput => Box::new(max_throughput::MaxThroughput),
            Self::Auto => Box::new(auto::Auto),
        }
    }

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

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::RealTime, Self::Interactive, Self::Bulk, Self::Unknown];

    /// The word for it in rules and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
            Self::Unknown => "unknown",
        }
    }
}

impl Reason {
    /// For programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Turn => "turn",
            Self::FinishesFirst => "finishes-first",
            Self::AnswersFirst => "answers-first",
        }
    }

    /// For people, after "since".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Fastest => "it is the fastest",
            Self::Turn => "it was its turn",
            Self::FinishesFirst => "what is open is finished soonest so",
            Self::AnswersFirst => "it answers soonest under its present load",
        }
    }
}

/// What a connection has still to carry one way, as far as can be told from what such ones carry,
/// `demand`, and what it has carried, `moved`.
///
/// Beyond its demand as much as it has carried already: sizes are heavy-tailed, so what has run for
/// long goes on for long.
pub fn remaining(demand: ByteCount, moved: ByteCount) -> ByteCount {
    if moved < demand {
        demand - moved
    } else {
        moved
    }
}

impl LinkView {
    /// How long the link has to carry what is on it and `demand` besides, the slower direction of
    /// the two.
    ///
    /// A rate that is not known counts as [`FALLBACK_RATE`].
    pub fn time_to_finish(&self, demand: &Demand) -> Duration {
        let up = time(self.load.up + demand.up, self.up);
        let down = time(self.load.down + demand.down, self.down);
        up.max(down)
    }

    /// How long a short connection takes when it shares the link with those that are on it already:
    /// two round trips, to connect and to be answered, and its share of the rate.
    pub fn time_to_answer(&self, demand: &Demand) -> Duration {
        let share = u64::from(self.load.connections.min(MAX_SHARING)) + 1;
        let shared = |bytes: ByteCount| ByteCount::new(bytes.as_u64().saturating_mul(share));
        let up = time(shared(demand.up), self.up);
        let down = time(shared(demand.down), self.down);
        self.latency.saturating_mul(2).saturating_add(up.max(down))
    }
}

fn time(bytes: ByteCount, rate: Rate) -> Duration {
    let time = known(rate).time_for(bytes.min(MAX_LOAD));
    time.unwrap_or_default()
}

/// A rate that is not known counts as [`FALLBACK_RATE`].
fn known(rate: Rate) -> Rate {
    match rate {
        Rate::ZERO => FALLBACK_RATE,
        rate => rate,
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

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        let mut all = Self::ALL.into_iter();
        all.find(|class| class.name() == name)
            .ok_or_else(|| UnknownClass(name.to_owned()))
    }
}

/// No policy for connections has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scheduler for connections `{0}`: allowed are only-one round-robin weighted-round-robin max-throughput auto"
)]
pub struct UnknownPolicy(String);

/// No class has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`: allowed are real-time interactive bulk unknown")]
pub struct UnknownClass(String);

/// Counts for a link whose rate is not known: 10 Mbit/s, an ordinary link.
pub const FALLBACK_RATE: Rate = Rate::from_bits_per_second(10_000_000);
/// More than this on one link makes no difference any more; times of it fit 64 bits of nanoseconds
/// even in the kernel.
pub const MAX_LOAD: ByteCount = ByteCount::new(8_000_000_000);
/// More connections than this on one link make no difference to a short one any more.
pub const MAX_SHARING: u32 = 10_000;

#[cfg(test)]
mod tests;
