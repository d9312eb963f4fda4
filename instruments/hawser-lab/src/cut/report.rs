//! The report of `hawser-lab cut`.

use serde::Serialize;

use super::case::Case;
use crate::experiment::Head;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct CutReport {
    #[serde(flatten)]
    pub(super) head: Head,
    /// The link that is lost, from 1.
    pub(super) link: u8,
    pub(super) cases: Vec<Case>,
    pub(super) failures: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}
