//! Connections that come and go, towards a server that knows nothing of Hawser and towards one that
//! is bonded.
//!
//! Source: DBAS §IV.

mod bonded;
mod direct;
mod known;

use std::fmt;
use std::time::Duration;

use hawser_scenario::figures::{Row, Served, Trial};
use hawser_scenario::{Point, Scenario, Workload};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::connection::ConnectionPolicy;

pub use known::Rates;

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

/// When a run is given up: what it asks for, fifty times over the slowest link.
fn limit(scenario: &Scenario, workload: &Workload) -> Duration {
    let asked = workload.offered() * workload.span;
    let rates = scenario.links.iter().map(|link| link.down.rate);
    let slowest = rates.min().and_then(|rate| rate.time_for(asked));
    workload.span + slowest.unwrap_or_default() * 50
}

/// What is left of `all` when nothing ended yet.
fn begin(workload: &Workload, seed: u64) -> Vec<Served> {
    let served = |arrival| Served {
        arrival,
        ended: None,
    };
    workload.draw(seed).into_iter().map(served).collect()
}

/// What a client asks with, about what a browser says.
const REQUEST: u64 = 400;
