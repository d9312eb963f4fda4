use std::ops::Range;

/// Which numbers have been seen: runs in ascending order that neither touch nor overlap.
///
/// What is added costs a search and what it changes, however many numbers the runs hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    runs: Vec<Range<u64>>,
}

impl Ranges {
    /// Adds a run; gives out the parts of it that were not there, in ascending order.
    pub(crate) fn insert(&mut self, run: Range<u64>, mut fresh: impl FnMut(Range<u64>)) {
        if run.is_empty() {
            return;
        }
        let from = self.runs.partition_point(|known| known.end < run.start);
        let behind = &self.runs[from..];
        let count = behind
            .iter()
            .take_while(|known| known.start <= run.end)
            .count();
        let touched = from..from + count;
        let mut at = run.start;
        let mut merged = run.clone();
        for known in &self.runs[touched.clone()] {
            if at < known.start {
                fresh(at..known.start);
            }
            at = at.max(known.end);
            merged = merged.start.min(known.start)..merged.end.max(known.end);
        }
        if at < run.end {
            fresh(at..run.end);
        }
        self.runs.splice(touched, [merged]);
    }

    /// Forgets everything below `start`.
    pub(crate) fn trim(&mut self, start: u64) {
        let gone = self.runs.partition_point(|run| run.end <= start);
        self.runs.drain(..gone);
        if let Some(first) = self.runs.first_mut() {
            first.start = first.start.max(start);
        }
    }

    /// The runs, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Range<u64>> {
        self.runs.iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_numbers_holds(
            runs in prop::collection::vec((0_u64..60, 0_u64..12), 0..40),
            trim in 0_u64..40,
        ) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (start, length) in runs {
                let mut fresh = Vec::new();
                ranges.insert(start..start + length, |run| fresh.extend(run));
                let expected: Vec<_> = (start..start + length).filter(|n| set.insert(*n)).collect();
                prop_assert_eq!(fresh, expected);
            }
            ranges.trim(trim);
            set.retain(|n| *n >= trim);
            let held: Vec<_> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(held, set.into_iter().collect::<Vec<_>>());
            prop_assert!(ranges.runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert!(ranges.iter().all(|run| !run.is_empty()));
        }
    }
}
