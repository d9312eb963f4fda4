//! The report of `hawser-lab gain`.

use hawser_types::ByteCount;
use serde::Serialize;

use super::figures::Figures;
use super::task::Task;
use super::variant::{Sample, Variant};
use crate::experiment::Head;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct GainReport {
    #[serde(flatten)]
    pub(super) head: Head,
    /// Way by which round robin was done.
    pub(super) round_robin_via: &'static str,
    /// Reason why nothing was placed in the kernel, where that is so.
    pub(super) no_kernel: Option<String>,
    pub(super) tasks: Vec<Done>,
    pub(super) failures: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}

/// A task, done by every way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Done {
    pub(super) task: Task,
    pub(super) bytes: ByteCount,
    pub(super) ways: Vec<Row>,
}

/// A task, done by one way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    #[serde(serialize_with = "as_text")]
    pub(super) way: Variant,
    pub(super) samples: Vec<Sample>,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

fn as_text<S: serde::Serializer>(way: &Variant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(way)
}
