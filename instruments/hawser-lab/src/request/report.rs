//! The report of `hawser-lab request`.

use serde::Serialize;

use crate::emulator::Counters;
use crate::experiment::Head;
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::text_table::beside_bulk;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RequestReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) count: u32,
    pub(super) repeat: u32,
    pub(super) size: u32,
    /// The link with the shortest round trip, from 1; plain TCP uses it alone.
    pub(super) better_link: usize,
    /// Its round trip when nothing waits, from the scenario.
    pub(super) base_rtt_seconds: f64,
    pub(super) phases: Vec<Phase>,
}

/// All requests of one contender beside one kind of bulk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Phase {
    pub(super) by: String,
    /// Direction of the bulk; none without bulk.
    pub(super) bulk: Option<Direction>,
    /// Round-trip times of all runs together; none when no answer came.
    pub(super) rtt_seconds: Option<Spread>,
    pub(super) p99_over_base_rtt: Option<f64>,
    pub(super) runs: Vec<Run>,
}

impl Phase {
    pub(super) fn name(&self) -> String {
        beside_bulk(&self.by, self.bulk)
    }
}

/// A phase gone through once.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Run {
    /// Of the scenario's loss and of the pauses.
    pub(super) seed: u64,
    /// Rate over each link meanwhile in the bulk's direction, in Mbit/s with all headers.
    pub(super) link_mbps: Vec<f64>,
    pub(super) failure: Option<String>,
    /// The emulator's counters in the run's lab; none when there was no lab.
    pub(super) emulator: Option<Counters>,
    /// Counters of client and gateway; empty without Hawser.
    pub(super) hawser: std::collections::BTreeMap<String, u64>,
    /// Every round trip in seconds, in order.
    pub(super) samples: Vec<f64>,
}
