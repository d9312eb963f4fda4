//! The report of `hawser-lab peer`.

use serde::Serialize;

use super::found::Found;
use super::legacy::Legacy;
use crate::experiment::Head;
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct PeerReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) legacy: Vec<Legacy>,
    /// Seconds for which a host without a peer is not probed again while peers are started.
    pub(super) retry_seconds: u8,
    pub(super) found: Vec<Found>,
    pub(super) failures: Vec<String>,
    pub(super) verdicts: Vec<Verdict>,
}
