use std::collections::BTreeMap;

use hawser_types::{Instant, LinkIndex};

/// Sizes of segments that do not arrive over a link, by link. Only a client needs to know.
#[derive(Debug, Default)]
pub(crate) struct LostSegments(BTreeMap<LinkIndex, LostSegment>);

/// Segments of this size do not arrive over a link, though shorter ones do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    /// Bytes of payload in the smallest segment that was found lost.
    pub size: u32,
    /// Time of the latest finding.
    pub at: Instant,
}

impl LostSegments {
    /// Notes that segments of `size` bytes of payload do not arrive over a link.
    pub(crate) fn note(&mut self, now: Instant, link: LinkIndex, size: u32) {
        let found = LostSegment { size, at: now };
        let entry = self.0.entry(link).or_insert(found);
        entry.size = entry.size.min(size);
        entry.at = now;
    }

    /// Returns the time of the latest finding on any link.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.0.values().map(|lost| lost.at).max()
    }

    /// Returns what was found of a link.
    pub(crate) fn on(&self, link: LinkIndex) -> Option<LostSegment> {
        self.0.get(&link).copied()
    }
}
