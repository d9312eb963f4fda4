//! The report of `hawser-lab interception`.

use serde::Serialize;

use crate::experiment::Head;
use crate::statistics::Spread;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct InterceptionReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) connects: Vec<Connects>,
    pub(super) transfers: Transfers,
    pub(super) failures: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}

/// Calls of connect(2) of one protocol. Times are in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Connects {
    pub(super) protocol: &'static str,
    pub(super) plain: Option<Spread>,
    pub(super) captured: Option<Spread>,
    /// The median over the rounds of the difference between a round's medians.
    pub(super) added_to_median: Option<f64>,
    /// The median over the rounds of the difference between a round's 99th percentiles.
    pub(super) added_to_p99: Option<f64>,
    /// Median and 99th percentile of each round: without the programs, then with them.
    pub(super) rounds: Vec<[f64; 4]>,
}

/// Speeds of one connection, in Gbit/s.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Transfers {
    pub(super) plain: Vec<f64>,
    pub(super) captured: Vec<f64>,
    /// The median of what the captured one of each pair has of the plain one beside it.
    pub(super) of_plain: Option<f64>,
    /// The 95 % interval of that median, by the order of the ratios.
    pub(super) interval: Option<[f64; 2]>,
    /// Number of times that the programs ran for one captured transfer more, from its first
    /// connection to its end; and the bytes that it moved.
    pub(super) runs: Option<(u64, u64)>,
}
