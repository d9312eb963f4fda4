//! Ranges of bytes of a file.

use std::ops::Range;

/// The bytes from `start` up to, not including, `end`. Never empty, never reversed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// Returns the range `start..end`, or `None` if it has no byte.
    pub(crate) fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// Returns `length` bytes from `start` on; `None` if that is no byte or exceeds `u64`.
    pub(crate) fn with_length(start: u64, length: u64) -> Option<Self> {
        Self::new(start, start.checked_add(length)?)
    }

    /// Offset of the first byte.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// Offset just behind the last byte.
    pub(crate) fn end(self) -> u64 {
        self.end
    }

    /// Number of bytes, at least 1.
    pub(crate) fn length(self) -> u64 {
        self.end - self.start
    }

    /// Returns the bytes that both ranges have, if there are any.
    pub(crate) fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

impl From<ByteRange> for Range<u64> {
    fn from(range: ByteRange) -> Self {
        range.start..range.end
    }
}

/// Returns ranges of offsets as ranges of bytes, leaving out the empty ones.
pub(crate) fn byte_ranges(
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> impl Iterator<Item = ByteRange> {
    let ranges = ranges.into_iter();
    ranges.filter_map(|range| ByteRange::new(range.start, range.end))
}

/// Reduces an ascending list to at most `limit` ranges by filling the smallest gaps.
///
/// Requesting a few bytes twice costs less than an unbounded list.
pub(crate) fn coalesce(ranges: &[ByteRange], limit: usize) -> Vec<ByteRange> {
    let surplus = ranges.len().saturating_sub(limit.max(1));
    let mut gaps: Vec<(u64, usize)> = ranges
        .windows(2)
        .enumerate()
        .map(|(index, pair)| (pair[1].start - pair[0].end, index + 1))
        .collect();
    gaps.sort_unstable();
    let mut filled: Vec<usize> = gaps.iter().take(surplus).map(|&(_, index)| index).collect();
    filled.sort_unstable();
    let mut result: Vec<ByteRange> = Vec::with_capacity(ranges.len() - surplus);
    for (index, range) in ranges.iter().enumerate() {
        match result.last_mut() {
            Some(last) if filled.binary_search(&index).is_ok() => last.end = range.end,
            _ => result.push(*range),
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use hawser_types::RangeSet;
    use proptest::prelude::*;

    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).expect("a range of the test is not empty")
    }

    #[test]
    fn a_range_is_never_empty_and_never_passes_the_largest_offset() {
        assert_eq!(ByteRange::new(7, 7), None);
        assert_eq!(ByteRange::new(8, 7), None);
        assert_eq!(ByteRange::with_length(u64::MAX, 1), None);
        assert_eq!(ByteRange::with_length(7, 2), Some(range(7, 9)));
    }

    #[test]
    fn coalescing_fills_the_smallest_gaps_first() {
        let ranges = [range(0, 1), range(2, 3), range(100, 101), range(110, 111)];
        assert_eq!(coalesce(&ranges, 4), ranges);
        assert_eq!(coalesce(&ranges, 2), [range(0, 3), range(100, 111)]);
        assert_eq!(coalesce(&ranges, 0), [range(0, 111)]);
        assert_eq!(coalesce(&[], 3), []);
    }

    proptest! {
        #[test]
        fn coalescing_loses_no_byte_and_keeps_the_limit(
            ops in prop::collection::vec((0..500u64, 1..9u64), 0..60),
            limit in 1..20usize,
        ) {
            let set: RangeSet = ops.iter().map(|&(s, l)| s..s + l).collect();
            let list: Vec<_> = byte_ranges(set.iter()).collect();
            let fewer = coalesce(&list, limit);
            prop_assert!(fewer.len() <= limit.max(1));
            let covered: RangeSet = fewer.iter().map(|&r| Range::from(r)).collect();
            prop_assert!(list.iter().all(|&r| covered.covers(&r.into())));
        }
    }
}
