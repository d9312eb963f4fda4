use std::time::Duration;

use hawser_types::StreamId;

use super::verdict::Verdict;
use crate::chunk::Reason;

/// Counts of one stream.
#[derive(Clone, Debug, Default)]
pub struct StreamTally {
    pub(super) stream: StreamId,
    /// Number of its latest use, so that the least recently used can be dropped.
    pub(super) used: u64,
    /// Counts of each known link, in the order in which links became known.
    pub(super) links: [LinkTally; MAX_LINKS],
}

impl StreamTally {
    /// Returns the stream.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the counts of each link, in the order of [`Tallies::links`](super::Tallies::links).
    pub fn links(&self) -> &[LinkTally] {
        &self.links
    }

    /// Adds the counts of another stream.
    pub fn add(&mut self, other: &Self) {
        for (sum, link) in self.links.iter_mut().zip(&other.links) {
            sum.add(link);
        }
    }
}

/// Counts of one stream on one link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Payload given to it, without copies.
    pub bytes: u64,
    /// Payload given to it that another link carried already.
    pub copied: u64,
    /// Part of `bytes` that an association carried.
    pub associated: u64,
    /// Decisions that placed a chunk on any link, by their verdict on this one.
    verdicts: [u32; Verdict::ALL.len()],
    /// Decisions that placed a chunk here, by their reason.
    chosen: [u32; REASONS],
    /// Nanoseconds for which it was ready and nothing was sent, by reason.
    held: [u64; REASONS],
    /// For some of the decisions that found it later: their number, and the sums of the delays in
    /// nanoseconds over this link and over the chosen one.
    later: (u32, u64, u64),
}

impl LinkTally {
    /// Returns the number of decisions that placed a chunk while the link was known.
    pub fn decisions(&self) -> u64 {
        self.verdicts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the numbers of these by verdict, without those that are zero.
    pub fn verdicts(&self) -> impl Iterator<Item = (Verdict, u64)> {
        let counts = self.verdicts.map(u64::from);
        some(Verdict::ALL.into_iter().zip(counts))
    }

    /// Returns the numbers of decisions that placed a chunk here by reason, without those that are
    /// zero.
    pub fn chosen(&self) -> impl Iterator<Item = (Reason, u64)> {
        some(Reason::ALL.into_iter().zip(self.chosen.map(u64::from)))
    }

    /// Returns the time for which it was ready and nothing was sent by reason, without times of
    /// zero.
    pub fn held(&self) -> impl Iterator<Item = (Reason, Duration)> {
        let held = some(Reason::ALL.into_iter().zip(self.held));
        held.map(|(reason, nanos)| (reason, Duration::from_nanos(nanos)))
    }

    /// Returns the mean delays over this link and over the chosen one, of chunks that would have
    /// been later over this one.
    pub fn arrivals(&self) -> Option<(Duration, Duration)> {
        let (count, here, there) = self.later;
        let mean = |sum: u64| sum.checked_div(count.into()).map(Duration::from_nanos);
        mean(here).zip(mean(there))
    }

    /// Adds the counts of another stream or time on the same link.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.copied += other.copied;
        self.associated += other.associated;
        for (sum, count) in self.verdicts.iter_mut().zip(other.verdicts) {
            *sum = sum.saturating_add(count);
        }
        for (sum, count) in self.chosen.iter_mut().zip(other.chosen) {
            *sum = sum.saturating_add(count);
        }
        for (sum, span) in self.held.iter_mut().zip(other.held) {
            *sum = sum.saturating_add(span);
        }
        self.later.0 = self.later.0.saturating_add(other.later.0);
        self.later.1 = self.later.1.saturating_add(other.later.1);
        self.later.2 = self.later.2.saturating_add(other.later.2);
    }

    pub(super) fn on_verdict(&mut self, verdict: Verdict) {
        let count = &mut self.verdicts[verdict as usize];
        *count = count.saturating_add(1);
    }

    pub(super) fn on_chosen(&mut self, reason: Reason) {
        if let Some(count) = self.chosen.get_mut(reason as usize) {
            *count = count.saturating_add(1);
        }
    }

    pub(super) fn on_held(&mut self, reason: Reason, nanos: u64) {
        if let Some(sum) = self.held.get_mut(reason as usize) {
            *sum = sum.saturating_add(nanos);
        }
    }

    pub(super) fn on_later(&mut self, here: u64, there: u64) {
        self.later.0 = self.later.0.saturating_add(1);
        self.later.1 = self.later.1.saturating_add(here);
        self.later.2 = self.later.2.saturating_add(there);
    }
}

pub(super) fn some<T>(counts: impl Iterator<Item = (T, u64)>) -> impl Iterator<Item = (T, u64)> {
    counts.filter(|(_, count)| *count > 0)
}

/// Maximum number of links that are counted.
pub const MAX_LINKS: usize = 8;
const REASONS: usize = Reason::ALL.len();
