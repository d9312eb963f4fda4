//! The report of `hawser-lab fairness`.

use serde::Serialize;

use super::share::Share;
use crate::contender::Contender;
use crate::experiment::Head;
use crate::meter::Congestion;
use crate::scenario::Direction;
use crate::statistics::median;
use crate::verdict::{Asked, Verdict};

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FairnessReport {
    #[serde(flatten)]
    pub(super) head: Head,
    pub(super) repeat: u32,
    pub(super) span_seconds: f64,
    /// The link that both use, from 1.
    pub(super) link: usize,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) rows: Vec<Row>,
}

/// One contender beside plain TCP with one congestion control.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Row {
    pub(super) by: String,
    pub(super) beside: Congestion,
    pub(super) direction: Direction,
    pub(super) shares: Vec<Share>,
    pub(super) failures: Vec<String>,
}

impl Row {
    pub(super) fn name(&self) -> String {
        let (way, beside) = (self.direction.name(), self.beside.name());
        format!("{way} {} beside tcp {beside}", self.by)
    }

    pub(super) fn median(&self, of: impl Fn(&Share) -> f64) -> Option<f64> {
        median(self.shares.iter().map(of))
    }

    pub(super) fn verdict(&self) -> Option<Verdict> {
        if self.by != Contender::Hawser.to_string() {
            return None;
        }
        let jain = self.median(|share| share.jain)?;
        let what = format!("{}: Jain's index", self.name());
        Some(Verdict::new(what, jain, Asked::AtLeast(JAIN)))
    }
}

const JAIN: f64 = 0.95;
