//! The report of `hawser-lab interactive`.

use serde::Serialize;

use crate::experiment::Head;
use crate::scenario::Direction;
use crate::statistics::Spread;
use crate::text_table::beside_bulk;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct InteractiveReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) span_seconds: f64,
    pub(super) repeat: u32,
    /// The link with the shortest round trip, from 1; plain TCP uses it alone.
    pub(super) best_link: usize,
    /// Jitter that its two directions have together.
    pub(super) jitter_seconds: f64,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) phases: Vec<Phase>,
}

/// One contender beside one kind of bulk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Phase {
    pub(super) by: String,
    /// Direction of the bulk; none without bulk.
    pub(super) bulk: Option<Direction>,
    /// From sending a block to having its echo; of all runs together.
    pub(super) echo_seconds: Option<Spread>,
    /// The bulk's goodput, of each run.
    pub(super) bulk_mbps: Vec<f64>,
    /// Every echo in order.
    pub(super) samples: Vec<f64>,
    pub(super) failures: Vec<String>,
}

impl Phase {
    pub(super) fn name(&self) -> String {
        beside_bulk(&self.by, self.bulk)
    }

    /// Returns the 99th percentile minus the median without bulk, in seconds.
    pub(super) fn added(&self, alone: Option<&Phase>) -> Option<f64> {
        let alone = alone?.echo_seconds?;
        Some(self.echo_seconds?.p99 - alone.median)
    }
}

/// The phase of the same contender without bulk.
pub(super) fn alone<'a>(phases: &'a [Phase], of: &Phase) -> Option<&'a Phase> {
    let mut all = phases.iter();
    all.find(|phase| phase.bulk.is_none() && phase.by == of.by)
}
