use std::collections::BTreeMap;
use std::ops::{Bound, Range};

/// A set of numbers, kept as the fewest ranges: they never touch or overlap.
///
/// Each change costs a search in the logarithm of the number of ranges, and what it removes; the
/// order in which a peer makes ranges come does not matter. The set has no bound of its own: a
/// caller whose peer chooses the numbers bounds them, or the [number of ranges](Self::range_count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start to end of each range, the end not included.
    ranges: BTreeMap<u64, u64>,
    total: u64,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
            total: 0,
        }
    }

    /// Adds a range; returns how many of its numbers were new.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        let before = self.total;
        self.insert_with(range, |_| ());
        self.total - before
    }

    /// Adds a range; calls `fresh` with each part of it that was not there, in ascending order.
    pub fn insert_with(&mut self, range: Range<u64>, mut fresh: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        let mut merged = range.clone();
        // Everything before `at` is in the set, or has been handed to `fresh`.
        let mut at = range.start;
        if let Some((&start, &end)) = self.ranges.range(..=range.start).next_back() {
            if end >= range.end {
                return;
            }
            if end >= range.start {
                (merged.start, at) = (start, end);
            }
        }
        let within = (Bound::Excluded(range.start), Bound::Included(range.end));
        while let Some((&start, &end)) = self.ranges.range(within).next() {
            if at < start {
                self.total += start - at;
                fresh(at..start);
            }
            self.ranges.remove(&start);
            at = end;
            merged.end = merged.end.max(end);
        }
        if at < range.end {
            self.total += range.end - at;
            fresh(at..range.end);
        }
        self.ranges.insert(merged.start, merged.end);
    }

    /// Takes a range out; returns how many numbers went.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        let before = self.total;
        if range.is_empty() {
            return 0;
        }
        while let Some((&start, &end)) = self.ranges.range(..range.end).next_back() {
            if end <= range.start {
                break;
            }
            self.ranges.remove(&start);
            if end > range.end {
                self.ranges.insert(range.end, end);
            }
            if start < range.start {
                self.ranges.insert(start, range.start);
            }
            self.total -= end.min(range.end) - start.max(range.start);
        }
        before - self.total
    }

    /// Takes out everything below `number`.
    pub fn remove_below(&mut self, number: u64) {
        while let Some(first) = self.ranges.first_entry() {
            let (start, end) = (*first.key(), *first.get());
            if start >= number {
                return;
            }
            first.remove();
            self.total -= end.min(number) - start;
            if end > number {
                self.ranges.insert(number, end);
            }
        }
    }

    /// Takes out the first range if it begins at or below `number`; returns it.
    pub fn pop_first_from(&mut self, number: u64) -> Option<Range<u64>> {
        let first = self.ranges.first_entry()?;
        if *first.key() > number {
            return None;
        }
        let (start, end) = first.remove_entry();
        self.total -= end - start;
        Some(start..end)
    }

    /// True if `number` is in the set.
    pub fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Returns the range that holds `number`.
    pub fn find(&self, number: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=number).next_back()?;
        (number < end).then_some(start..end)
    }

    /// True if every number of `range` is in the set.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self
                .find(range.start)
                .is_some_and(|held| held.end >= range.end)
    }

    /// True if no number of `range` is in the set.
    pub fn is_disjoint(&self, range: &Range<u64>) -> bool {
        let before = self.ranges.range(..range.end).next_back();
        range.is_empty() || before.is_none_or(|(_, end)| *end <= range.start)
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Numbers in the set.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Ranges in the set: what it takes in memory.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the end of the range that begins at 0, so how many numbers there are without a gap;
    /// 0 when none does.
    pub fn prefix(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// Returns the end of the last range; 0 when the set is empty.
    pub fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The parts of `0..size` that are not in the set, ascending.
    pub fn gaps(&self, size: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        // Beside each range the gap before it; behind the last one a gap up to `size`.
        let held = self.iter().take_while(move |range| range.start < size);
        let mut at = 0;
        held.chain(std::iter::once(size..size))
            .filter_map(move |range| {
                let gap = at..range.start;
                at = range.end;
                (!gap.is_empty()).then_some(gap)
            })
    }
}

impl Extend<Range<u64>> for RangeSet {
    fn extend<I: IntoIterator<Item = Range<u64>>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert(range);
        }
    }
}

impl FromIterator<Range<u64>> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

#[cfg(test)]
mod tests;
