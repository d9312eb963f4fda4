//! Policies that place the packets of a tunnel on paths.

mod auto;
mod estimate;
mod in_order;
mod least_rtt;
mod policy;
mod redundant;
mod scheduler;
mod weighted;

pub use policy::{PacketPolicy, UnknownPacketPolicy};
pub use scheduler::{
    Arranged, PacketDecision, PacketFlow, PacketReason, PacketScheduler, PacketUnit,
};

impl PacketPolicy {
    /// Makes the policy's scheduler.
    pub fn scheduler(self) -> Box<dyn PacketScheduler> {
        match self {
            Self::WeightedRoundRobin | Self::WeightedRoundRobinWithBuffer => {
                Box::new(weighted::Weighted::new(self))
            }
            Self::InOrder => Box::new(in_order::InOrder::default()),
            Self::LeastRtt => Box::new(least_rtt::LeastRtt),
            Self::Redundant => Box::new(redundant::Redundant),
            Self::Auto => Box::new(auto::Auto),
        }
    }
}

#[cfg(test)]
mod tests;
