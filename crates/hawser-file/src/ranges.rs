//! Which bytes of a file are there, as a set of ranges.

use std::collections::BTreeMap;
use std::fmt;

/// The bytes from `start` up to, not including, `end`. Never empty, never reversed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The bytes `start..end`, or `None` where that holds no byte.
    pub fn new(start: u64, end: u64) -> Option<Self> {
        (start < end).then_some(Self { start, end })
    }

    /// `length` bytes from `start` on, or `None` where that is no byte or passes the end of `u64`.
    pub fn with_length(start: u64, length: u64) -> Option<Self> {
        Self::new(start, start.checked_add(length)?)
    }

    /// Offset of the first byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Offset just behind the last byte.
    pub fn end(self) -> u64 {
        self.end
    }

    /// How many bytes, at least 1.
    pub fn length(self) -> u64 {
        self.end - self.start
    }

    /// What both have, if anything.
    pub fn intersection(self, other: Self) -> Option<Self> {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A set of byte offsets, kept as the fewest ranges: they never touch or overlap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeSet {
    /// From start to end.
    ranges: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a range; returns how many of its bytes were new.
    pub fn insert(&mut self, range: ByteRange) -> u64 {
        let (mut start, mut end) = (range.start, range.end);
        let mut already = 0;
        // From the right: everything that begins at or before our end and reaches our start.
        while let Some((&left, &right)) = self.ranges.range(..=end).next_back() {
            if right < start {
                break;
            }
            self.ranges.remove(&left);
            already += right - left;
            start = start.min(left);
            end = end.max(right);
        }
        self.ranges.insert(start, end);
        let added = (end - start) - already;
        self.total += added;
        added
    }

    /// Takes a range out; returns how many bytes went.
    pub fn remove(&mut self, range: ByteRange) -> u64 {
        let mut removed = 0;
        while let Some((&left, &right)) = self.ranges.range(..range.end).next_back() {
            if right <= range.start {
                break;
            }
            self.ranges.remove(&left);
            if right > range.end {
                self.ranges.insert(range.end, right);
            }
            if left < range.start {
                self.ranges.insert(left, range.start);
            }
            removed += right.min(range.end) - left.max(range.start);
        }
        self.total -= removed;
        removed
    }

    /// Whether every byte of `range` is in the set.
    pub fn covers(&self, range: ByteRange) -> bool {
        self.ranges
            .range(..=range.start)
            .next_back()
            .is_some_and(|(_, &end)| end >= range.end)
    }

    /// Number of bytes in the set.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of separate ranges.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether no byte is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Where the range that begins at 0 ends: how much is there without a hole.
    pub fn prefix(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl Iterator<Item = ByteRange> + '_ {
        self.ranges
            .iter()
            .map(|(&start, &end)| ByteRange { start, end })
    }

    /// What of `0..size` is not in the set, ascending.
    pub fn missing(&self, size: u64) -> Vec<ByteRange> {
        let mut gaps = Vec::new();
        let mut at = 0;
        for range in self.iter().take_while(|range| range.start < size) {
            gaps.extend(ByteRange::new(at, range.start));
            at = range.end;
        }
        gaps.extend(ByteRange::new(at, size));
        gaps
    }
}

impl Extend<ByteRange> for RangeSet {
    fn extend<I: IntoIterator<Item = ByteRange>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<ByteRange> for RangeSet {
    fn from_iter<I: IntoIterator<Item = ByteRange>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

/// Makes at most `limit` ranges of an ascending list by filling the smallest gaps.
///
/// Asking again for a few bytes that are there already costs less than a list without bound.
pub fn coalesce(ranges: &[ByteRange], limit: usize) -> Vec<ByteRange> {
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
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange::new(start, end).expect("a range of the test is not empty")
    }

    #[test]
    fn touching_ranges_become_one() {
        let mut set = RangeSet::new();
        assert_eq!(set.insert(range(0, 10)), 10);
        assert_eq!(set.insert(range(20, 30)), 10);
        assert_eq!(set.insert(range(10, 20)), 10);
        assert_eq!(set.iter().collect::<Vec<_>>(), [range(0, 30)]);
        assert_eq!(set.insert(range(5, 25)), 0, "a duplicate adds nothing");
    }

    #[test]
    fn offsets_beyond_four_gibibytes_keep_every_bit() {
        const GIB: u64 = 1 << 30;
        let size = 9 * GIB + 7;
        let mut set = RangeSet::new();
        set.insert(range(4 * GIB - 1, 4 * GIB + 1));
        set.insert(range(8 * GIB + 3, size));
        assert_eq!(
            set.missing(size),
            [range(0, 4 * GIB - 1), range(4 * GIB + 1, 8 * GIB + 3)]
        );
        assert_eq!(set.total(), 2 + GIB + 4);
        let top = range(u64::MAX - 1, u64::MAX);
        assert_eq!(set.insert(top), 1);
        assert!(set.covers(top));
        assert_eq!(ByteRange::with_length(u64::MAX, 1), None);
    }

    #[test]
    fn coalescing_fills_the_smallest_gaps_first() {
        let ranges = [range(0, 1), range(2, 3), range(100, 101), range(110, 111)];
        assert_eq!(coalesce(&ranges, 4), ranges);
        assert_eq!(coalesce(&ranges, 2), [range(0, 3), range(100, 111)]);
        assert_eq!(coalesce(&ranges, 0), [range(0, 111)]);
        assert_eq!(coalesce(&[], 3), []);
    }

    #[derive(Clone, Debug)]
    enum TestOp {
        Insert(ByteRange),
        Remove(ByteRange),
    }

    fn any_op() -> impl Strategy<Value = TestOp> {
        (0..200u64, 1..40u64, any::<bool>()).prop_map(|(start, length, insert)| {
            let range = range(start, start + length);
            if insert {
                TestOp::Insert(range)
            } else {
                TestOp::Remove(range)
            }
        })
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_single_offsets(ops in prop::collection::vec(any_op(), 0..60)) {
            let mut set = RangeSet::new();
            let mut model = BTreeSet::new();
            for op in ops {
                match op {
                    TestOp::Insert(range) => {
                        let added = (range.start..range.end).filter(|&at| model.insert(at)).count();
                        prop_assert_eq!(set.insert(range), added as u64);
                    }
                    TestOp::Remove(range) => {
                        let gone = (range.start..range.end).filter(|at| model.remove(at)).count();
                        prop_assert_eq!(set.remove(range), gone as u64);
                    }
                }
            }
            let held: BTreeSet<u64> = set.iter().flat_map(|r| r.start..r.end).collect();
            prop_assert_eq!(&held, &model);
            prop_assert_eq!(set.total(), model.len() as u64);
            let missing: Vec<u64> =
                set.missing(150).iter().flat_map(|r| r.start..r.end).collect();
            let expected: Vec<u64> = (0..150).filter(|at| !model.contains(at)).collect();
            prop_assert_eq!(missing, expected);
            let list: Vec<_> = set.iter().collect();
            prop_assert!(list.windows(2).all(|pair| pair[0].end < pair[1].start));
        }

        #[test]
        fn coalescing_loses_no_byte_and_keeps_the_limit(
            ops in prop::collection::vec((0..500u64, 1..9u64), 0..60),
            limit in 1..20usize,
        ) {
            let set: RangeSet = ops.iter().map(|&(s, l)| range(s, s + l)).collect();
            let list: Vec<_> = set.iter().collect();
            let fewer = coalesce(&list, limit);
            prop_assert!(fewer.len() <= limit.max(1));
            let covered: RangeSet = fewer.iter().copied().collect();
            prop_assert!(list.iter().all(|&r| covered.covers(r)));
        }
    }
}
