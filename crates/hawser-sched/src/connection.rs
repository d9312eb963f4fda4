//! Policies that place whole connections on links, towards servers that know nothing of Hawser.
//!
//! A connection stays on its link for life, so what it will need counts as much as what the links
//! can do. Sizes and rates are whole numbers throughout: the same decisions are taken in the
//! kernel, where there is nothing else, and a test compares the two.
//!
//! Source: DBAS §II.D, the connection-oriented schedulers.

mod auto;
mod class;
mod gateway;
mod link_view;
mod max_throughput;
mod only_one;
mod policy;
mod round_robin;
mod scheduler;
mod weighted;

pub use auto::SHORT;
pub use class::{Class, UnknownClass};
pub use gateway::{By, GatewayUse, GatewayView, Reached, UnknownGatewayUse, choose_way};
pub use link_view::{Demand, FALLBACK_RATE, LinkView, Load, MAX_LOAD, MAX_SHARING, remaining};
pub use policy::{ConnectionPolicy, UnknownPolicy};
pub use scheduler::{Choice, ConnectionScheduler, Reason};

impl ConnectionPolicy {
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
}

#[cfg(test)]
mod tests;
