//! The report of `hawser-lab watchers`.

use serde::Serialize;

use super::case::Case;
use crate::experiment::Head;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct WatchersReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) cases: Vec<Case>,
    /// Resident memory of the daemon in bytes: before the first client, and after the last.
    pub(super) memory: [u64; 2],
    pub(super) failures: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}
