//! Ranges of sequence numbers.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// A set of sequence numbers, as ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<u64, u64>);

/// The first number of a range, and the one behind its last.
pub(crate) type Range = (u64, u64);

impl Ranges {
    /// Adds a range. Returns what of it was not there.
    pub(crate) fn insert(&mut self, (start, end): Range) -> SmallVec<[Range; 2]> {
        let mut added = SmallVec::new();
        if start >= end {
            return added;
        }
        let (mut low, mut high) = (start, end);
        let mut at = start;
        if let Some((&from, &to)) = self.0.range(..start).next_back()
            && to >= start
        {
            low = from;
            high = high.max(to);
            at = at.max(to);
        }
        while let Some((&from, &to)) = self.0.range(low.max(start)..=end).next() {
            if from > at {
                added.push((at, from));
            }
            at = at.max(to);
            high = high.max(to);
            self.0.remove(&from);
        }
        if at < end {
            added.push((at, end));
        }
        self.0.insert(low, high);
        added
    }

    /// The range that holds a number.
    pub(crate) fn find(&self, number: u64) -> Option<Range> {
        let (&start, &end) = self.0.range(..=number).next_back()?;
        (end > number).then_some((start, end))
    }

    /// Takes the first range out if it begins at or below `number`; returns its end.
    pub(crate) fn take_from(&mut self, number: u64) -> Option<u64> {
        let (&start, &end) = self.0.first_key_value()?;
        if start > number {
            return None;
        }
        self.0.pop_first();
        Some(end)
    }

    /// Forgets everything below `number`.
    pub(crate) fn remove_below(&mut self, number: u64) {
        while let Some((&start, &end)) = self.0.first_key_value() {
            if start >= number {
                return;
            }
            self.0.pop_first();
            if end > number {
                self.0.insert(number, end);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many numbers there are.
    pub(crate) fn held(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_told_once() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.insert((10, 20))[..], [(10, 20)]);
        assert_eq!(ranges.insert((30, 40))[..], [(30, 40)]);
        assert_eq!(ranges.insert((12, 18))[..], []);
        assert_eq!(ranges.insert((5, 35))[..], [(5, 10), (20, 30)]);
        assert_eq!(ranges.find(39), Some((5, 40)));
        assert_eq!(ranges.insert((40, 41))[..], [(40, 41)]);
        assert_eq!(ranges.held(), 36);
        ranges.remove_below(7);
        assert_eq!(ranges.find(7), Some((7, 41)));
        assert_eq!(ranges.find(6), None);
        assert_eq!(ranges.take_from(8), Some(41));
        assert!(ranges.is_empty());
    }
}
