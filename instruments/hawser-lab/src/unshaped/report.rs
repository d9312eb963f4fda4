//! The report of `hawser-lab unshaped`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::experiment::Head;
use crate::scenario::Direction;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct UnshapedReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) repeat: u32,
    pub(super) payload: u64,
    pub(super) rows: Vec<Row>,
}

/// One kind of transfer in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    pub(super) direction: Direction,
    pub(super) by: &'static str,
    /// Median goodput.
    pub(super) gbps: Option<f64>,
    /// Goodput over that of others in the same direction, by their name.
    pub(super) of: BTreeMap<&'static str, f64>,
    /// The required ratio, and the candidate that it refers to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<AskedRatio>,
    /// Median processor seconds per 10^9 bytes of payload, by process.
    pub(super) cpu_per_gigabyte: BTreeMap<&'static str, f64>,
    /// Goodput of each transfer in Gbit/s.
    pub(super) samples: Vec<f64>,
    pub(super) failures: Vec<String>,
}

/// A goodput that is asked for, as a part of another's in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct AskedRatio {
    pub(super) of: &'static str,
    pub(super) ratio: f64,
}
