//! The requests of a run, and the time limit: the same for every method.

use std::time::Duration;

use hawser_scenario::figures::Served;
use hawser_scenario::{Scenario, Workload};

/// The connections of a run as they are before any has begun.
pub(super) fn planned(workload: &Workload, seed: u64) -> Vec<Served> {
    let served = |arrival| Served {
        arrival,
        ended: None,
    };
    workload.draw(seed).into_iter().map(served).collect()
}

/// Time after which a run is given up: fifty times what the slowest link needs for all of it.
pub(super) fn limit(scenario: &Scenario, workload: &Workload) -> Duration {
    let asked = workload.offered() * workload.span;
    let rates = scenario.links.iter().map(|link| link.down.rate);
    let slowest = rates.min().and_then(|rate| rate.time_for(asked));
    workload.span + slowest.unwrap_or_default() * 50
}

/// Bytes of a request, about what a browser sends.
pub(super) const REQUEST: u64 = 400;
