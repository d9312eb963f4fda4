//! Result of a cell, and the requirements on it.

use std::cmp::Reverse;

use serde::Serialize;

use super::Cell;

/// Result of a cell, and of the same work over the healthy link alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct DyingReport {
    /// The cell.
    pub cell: Cell,
    /// Over all links.
    pub all: Figures,
    /// Over the healthy link alone.
    pub healthy: Figures,
}

/// Figures of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Figures {
    /// Goodput in kbit/s of each transfer that a dying link may have spoiled; 0: it never ended.
    pub goodputs: Vec<u64>,
    /// The longest time without anything new at the reader of a transfer, in milliseconds; for
    /// requests, the slowest one.
    pub silence: u64,
    /// Time that requests, or bytes of the call, took: 99th percentile, in microseconds.
    pub p99: Option<u64>,
}

impl DyingReport {
    /// Returns the least share of the healthy link's goodput that a transfer had, in thousandths.
    pub fn of_healthy(&self) -> Option<u64> {
        let pairs = self.all.goodputs.iter().zip(&self.healthy.goodputs);
        let shares = pairs.map(|(all, healthy)| all * 1000 / healthy.max(&1));
        shares.min()
    }

    /// Returns the 99th percentile over the healthy link's, in thousandths.
    pub fn p99_of_healthy(&self) -> Option<u64> {
        Some(self.all.p99? * 1000 / self.healthy.p99?.max(1))
    }

    /// True if the cell is as good as it should be.
    pub fn is_kept(&self) -> bool {
        let goodput = self.of_healthy().is_none_or(|share| share >= LEAST_SHARE);
        let p99 = self
            .p99_of_healthy()
            .is_none_or(|share| share <= MOST_OF_P99);
        goodput && p99 && self.all.silence <= LONGEST_SILENCE
    }

    /// Orders cells for a table: the worst first.
    pub fn badness(&self) -> impl Ord + use<> {
        let goodput = 1000_u64.saturating_sub(self.of_healthy().unwrap_or(1000));
        let slow = self.p99_of_healthy().unwrap_or(1000).saturating_sub(1000);
        let worst = goodput.max(slow.min(1000));
        (Reverse(worst), Reverse(self.all.silence))
    }
}

/// Least goodput, in thousandths of the healthy link's.
pub const LEAST_SHARE: u64 = 980;
/// Longest silence, in milliseconds.
pub const LONGEST_SILENCE: u64 = 500;
/// Most of the healthy link's 99th percentile, in thousandths.
pub const MOST_OF_P99: u64 = 1200;
