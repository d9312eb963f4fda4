//! Short-lived connections to a server without Hawser and to a bonded one.
//!
//! Source: DBAS §IV.

mod bonded;
mod daemon;
mod direct;
mod requests;

use std::fmt;

use hawser_scenario::Point;
use hawser_scenario::figures::{Row, Trial};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::connection::ConnectionPolicy;

pub use daemon::Rates;

/// Who spreads the load, and over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each connection takes one link, as this policy says.
    Connections(ConnectionPolicy),
    /// All go over one session, whose chunks this policy spreads.
    Chunks(ChunkPolicy),
}

impl Method {
    /// Every method that the paper compares, and those of Hawser.
    pub const ALL: [Self; 8] = [
        Self::Connections(ConnectionPolicy::OnlyOne),
        Self::Connections(ConnectionPolicy::RoundRobin),
        Self::Connections(ConnectionPolicy::WeightedRoundRobin),
        Self::Connections(ConnectionPolicy::MaxThroughput),
        Self::Connections(ConnectionPolicy::Auto),
        Self::Chunks(ChunkPolicy::RoundRobin),
        Self::Chunks(ChunkPolicy::WeightedRoundRobin),
        Self::Chunks(ChunkPolicy::Auto),
    ];
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections(policy) => f.pad(policy.name()),
            Self::Chunks(policy) => f.pad(&format!("chunks-{policy}")),
        }
    }
}

/// Runs the workload of a point once for each seed. `None`: the scenario has no workload.
pub fn run(
    point: &Point,
    method: Method,
    rates: Rates,
    seeds: impl Iterator<Item = u64>,
) -> Option<Row> {
    let scenario = &point.scenario;
    let workload = scenario.workload.as_ref()?;
    let trial = |seed| {
        let served = match method {
            Method::Connections(policy) => direct::run(scenario, workload, policy, rates, seed),
            Method::Chunks(policy) => bonded::run(scenario, workload, policy, seed),
        };
        Trial::of(scenario, workload, seed, &served)
    };
    let trials = seeds.map(trial).collect();
    Some(Row::new(point, workload, method.to_string(), trials))
}
