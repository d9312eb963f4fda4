use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers kept as ranges that neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// Start to end, the end not included.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&s, &e)) = self.ranges.range(..=end).next_back() {
            if e < start {
                break;
            }
            self.ranges.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
    }

    /// Whether `value` is in the set.
    pub(crate) fn contains(&self, value: u64) -> bool {
        self.ranges
            .range(..=value)
            .next_back()
            .is_some_and(|(_, end)| value < *end)
    }

    /// Whether nothing of `range` is in the set.
    pub(crate) fn is_disjoint(&self, range: &Range<u64>) -> bool {
        let before = self.ranges.range(..range.end).next_back();
        range.is_empty() || before.is_none_or(|(_, end)| *end <= range.start)
    }

    /// The end of the range that begins at 0; 0 when none does.
    pub(crate) fn contiguous(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// The end of the last range; 0 when the set is empty.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.last_key_value().map_or(0, |(_, end)| *end)
    }

    /// How many ranges there are: what the set costs.
    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn touching_ranges_become_one() {
        let mut set = RangeSet::default();
        set.insert(10..20);
        set.insert(30..40);
        set.insert(20..30);
        assert_eq!((set.len(), set.contiguous()), (1, 0));
        set.insert(0..50);
        assert_eq!((set.len(), set.contiguous()), (1, 50));
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(
            inserts in proptest::collection::vec((0u64..60, 0u64..12), 0..30)
        ) {
            let (mut set, mut model) = (RangeSet::default(), std::collections::BTreeSet::new());
            for (start, length) in inserts {
                let range = start..start + length;
                let disjoint = range.clone().all(|n| !model.contains(&n));
                prop_assert_eq!(set.is_disjoint(&range), disjoint, "{:?}", range);
                set.insert(range.clone());
                model.extend(range);
            }
            for n in 0..80 {
                prop_assert_eq!(set.contains(n), model.contains(&n));
            }
            let contiguous = (0..).take_while(|n| model.contains(n)).count() as u64;
            prop_assert_eq!(set.contiguous(), contiguous);
        }
    }
}
