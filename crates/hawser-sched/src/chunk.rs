//! Policies that place the chunks of byte streams on channels.

mod auto;
mod backlog;
mod blest;
mod ecf;
mod express;
mod least_rtt;
mod load_index;
mod policy;
mod redundant;
mod round_robin;
mod scheduler;
mod weighted;

pub use express::is_copy_in_time;
pub use policy::{ChunkPolicy, UnknownPolicy};
pub use scheduler::{ChunkScheduler, ChunkUnit, Decision, Reason};

impl ChunkPolicy {
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
}

/// The policy for what must not wait behind bulk: the quickest ready channel, and for small
/// chunks the quickest of another link as well.
pub fn express_scheduler() -> Box<dyn ChunkScheduler> {
    Box::new(express::Express)
}

#[cfg(test)]
mod tests;
