use std::collections::VecDeque;
use std::ops::Range;

use hawser_wire::sctp::{GapBlock, Tsn};

/// The TSNs that have arrived: a cumulative TSN, and a ring of bits for those beyond it.
#[derive(Debug)]
pub(super) struct Arrivals {
    cumulative: Tsn,
    /// Total advance of the cumulative TSN: a position that never wraps.
    passed: u64,
    /// Distance of the highest TSN from the cumulative one.
    beyond: u32,
    /// Number of runs beyond it.
    runs: u32,
    /// Bits by the lowest 16 bits of the TSN; only those beyond the cumulative one can be set.
    bits: Box<[u64; WORDS]>,
    /// Positions that the cumulative TSN has passed without an arrival, the latest of them.
    passed_over: VecDeque<Range<u64>>,
}

/// Relation of a TSN to those that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Novelty {
    /// It has arrived before, or was abandoned.
    Known,
    /// It is new.
    New,
    /// It is too far ahead for a SACK to report it.
    TooFar,
}

impl Arrivals {
    /// Creates the state before the first arrival, which is `initial`.
    pub(super) fn new(initial: Tsn) -> Self {
        Self {
            cumulative: initial.advance(u32::MAX),
            passed: 0,
            beyond: 0,
            runs: 0,
            bits: Box::new([0; WORDS]),
            passed_over: VecDeque::new(),
        }
    }

    /// Returns the cumulative TSN.
    pub(super) fn cumulative(&self) -> Tsn {
        self.cumulative
    }

    /// Returns the number of runs beyond the cumulative TSN: that of a SACK's gap blocks.
    pub(super) fn runs(&self) -> u32 {
        self.runs
    }

    /// Returns the position of a TSN beyond the cumulative one, which never wraps.
    pub(super) fn position(&self, tsn: Tsn) -> u64 {
        self.passed + u64::from(tsn.since(self.cumulative))
    }

    /// Tells whether the TSN is below the highest that has arrived.
    pub(super) fn is_inside(&self, tsn: Tsn) -> bool {
        tsn.since(self.cumulative) < self.beyond
    }

    pub(super) fn novelty(&self, tsn: Tsn) -> Novelty {
        if !tsn.is_after(self.cumulative) {
            return Novelty::Known;
        }
        let distance = tsn.since(self.cumulative);
        if distance > MAX_DISTANCE {
            Novelty::TooFar
        } else if self.has(distance) {
            Novelty::Known
        } else {
            Novelty::New
        }
    }

    /// Adds a TSN that is [`Novelty::New`].
    pub(super) fn insert(&mut self, tsn: Tsn) {
        let distance = tsn.since(self.cumulative);
        if distance == 1 {
            self.pass(1);
            self.pass_run();
            return;
        }
        let joined = u32::from(self.has(distance - 1)) + u32::from(self.has(distance + 1));
        self.runs = self.runs + 1 - joined;
        self.beyond = self.beyond.max(distance);
        let (word, bit) = self.place(distance);
        self.bits[word] |= bit;
    }

    /// Advances the cumulative TSN to this one, as if all before had arrived.
    pub(super) fn advance_to(&mut self, tsn: Tsn) {
        let count = tsn.since(self.cumulative);
        let end = count.min(self.beyond);
        let (mut distance, mut missing) = (1, 1);
        while distance <= end {
            match self.window(distance).trailing_zeros() {
                0 => {
                    self.note_passed_over(missing..distance);
                    if !self.has(distance + 1) {
                        self.runs -= 1;
                    }
                    self.clear(distance);
                    distance += 1;
                    missing = distance;
                }
                zeros => distance += zeros,
            }
        }
        self.note_passed_over(missing..count + 1);
        self.pass(count);
        self.pass_run();
    }

    /// Returns, once, the position of a TSN that was passed over and has not arrived.
    pub(super) fn take_passed_over(&mut self, tsn: Tsn) -> Option<u64> {
        let back = u64::from(self.cumulative.since(tsn));
        let position = self.passed.checked_sub(back)?;
        let mut ranges = self.passed_over.iter();
        let place = ranges.position(|range| range.contains(&position))?;
        let range = self.passed_over[place].clone();
        self.passed_over[place] = position + 1..range.end;
        if range.start < position {
            self.passed_over.insert(place, range.start..position);
        }
        self.passed_over.retain(|range| !range.is_empty());
        if self.passed_over.len() > MAX_PASSED_OVER {
            self.passed_over.pop_front();
        }
        Some(position)
    }

    /// Notes distances that the cumulative TSN passes although they are missing.
    fn note_passed_over(&mut self, distances: Range<u32>) {
        if distances.is_empty() {
            return;
        }
        if self.passed_over.len() == MAX_PASSED_OVER {
            self.passed_over.pop_front();
        }
        let position = |distance: u32| self.passed + u64::from(distance);
        let range = position(distances.start)..position(distances.end);
        self.passed_over.push_back(range);
    }

    /// Returns the runs beyond the cumulative TSN in ascending order, at most the last `most`.
    pub(super) fn newest_gaps(&self, most: usize) -> Vec<GapBlock> {
        let mut gaps = Vec::with_capacity(most.min(self.runs as usize));
        let mut last = self.beyond;
        while last > 1 && gaps.len() < most {
            let before = self.down_while(last, u64::leading_ones);
            gaps.push(GapBlock {
                first: (before + 1) as u16,
                last: last as u16,
            });
            last = self.down_while(before, u64::leading_zeros);
        }
        gaps.reverse();
        gaps
    }

    /// Goes down from a distance over equal bits and returns the first distance that differs; at
    /// least 1, since the TSN after the cumulative one is missing.
    fn down_while(&self, mut distance: u32, alike: fn(u64) -> u32) -> u32 {
        loop {
            let count = alike(self.window(distance.wrapping_sub(u64::BITS - 1)));
            distance = distance.saturating_sub(count).max(1);
            if count < u64::BITS || distance == 1 {
                return distance;
            }
        }
    }

    /// Advances over the run that follows the cumulative TSN, if any.
    fn pass_run(&mut self) {
        if !self.has(1) {
            return;
        }
        while self.has(1) {
            self.clear(1);
            self.pass(1);
        }
        self.runs -= 1;
    }

    fn pass(&mut self, count: u32) {
        self.cumulative = self.cumulative.advance(count);
        self.passed += u64::from(count);
        self.beyond = self.beyond.saturating_sub(count);
    }

    fn has(&self, distance: u32) -> bool {
        let (word, bit) = self.place(distance);
        distance <= self.beyond && self.bits[word] & bit != 0
    }

    fn clear(&mut self, distance: u32) {
        let (word, bit) = self.place(distance);
        self.bits[word] &= !bit;
    }

    fn place(&self, distance: u32) -> (usize, u64) {
        let index = self.cumulative.advance(distance).value() as usize;
        (index / 64 % WORDS, 1 << (index % 64))
    }

    /// Returns the bits of 64 distances from this one on, which may lie before the cumulative TSN.
    fn window(&self, distance: u32) -> u64 {
        let index = self.cumulative.advance(distance).value() as usize;
        let (word, shift) = (index / 64 % WORDS, index % 64);
        let low = self.bits[word] >> shift;
        if shift == 0 {
            low
        } else {
            low | self.bits[(word + 1) % WORDS] << (64 - shift)
        }
    }
}

/// Maximum distance: a gap block has 16 bits.
const MAX_DISTANCE: u32 = 65535;
const WORDS: usize = 1024;
/// Holes that are remembered: a chunk for an older one is dropped as too late.
const MAX_PASSED_OVER: usize = 256;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Returns the expected gap blocks for a set of numbers.
    fn expected(cumulative: u64, beyond: &BTreeSet<u64>) -> Vec<GapBlock> {
        let mut gaps: Vec<GapBlock> = Vec::new();
        for number in beyond {
            let distance = (number - cumulative) as u16;
            match gaps.last_mut() {
                Some(gap) if gap.last + 1 == distance => gap.last = distance,
                _ => gaps.push(GapBlock {
                    first: distance,
                    last: distance,
                }),
            }
        }
        gaps
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Forward(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (1..8u32).prop_map(Step::Insert),
            8 => (1..300u32).prop_map(Step::Insert),
            2 => (1..=MAX_DISTANCE).prop_map(Step::Insert),
            1 => (1..200u32).prop_map(Step::Forward),
            1 => (1..100_000u32).prop_map(Step::Forward),
        ]
    }

    proptest! {
        #[test]
        fn the_ring_says_what_a_set_would_say(
            initial in any::<u32>(),
            steps in proptest::collection::vec(step(), 0..400),
            most in 0..20usize,
        ) {
            let mut arrivals = Arrivals::new(Tsn::new(initial));
            // Numbers that do not wrap; the cumulative one begins at 0.
            let (mut cumulative, mut beyond) = (0u64, BTreeSet::new());
            for step in steps {
                match step {
                    Step::Insert(distance) => {
                        let number = cumulative + u64::from(distance);
                        let tsn = arrivals.cumulative().advance(distance);
                        let novelty = arrivals.novelty(tsn);
                        prop_assert_eq!(novelty == Novelty::New, beyond.insert(number));
                        prop_assert_eq!(arrivals.position(tsn), number);
                        if novelty == Novelty::New {
                            arrivals.insert(tsn);
                        }
                    }
                    Step::Forward(count) => {
                        cumulative += u64::from(count);
                        beyond = beyond.split_off(&(cumulative + 1));
                        arrivals.advance_to(arrivals.cumulative().advance(count));
                    }
                }
                while beyond.remove(&(cumulative + 1)) {
                    cumulative += 1;
                }
                let gaps = expected(cumulative, &beyond);
                let moved = (cumulative as u32).wrapping_sub(1);
                prop_assert_eq!(arrivals.cumulative(), Tsn::new(initial).advance(moved));
                prop_assert_eq!(arrivals.runs() as usize, gaps.len());
                let newest = &gaps[gaps.len().saturating_sub(most)..];
                prop_assert_eq!(&arrivals.newest_gaps(most)[..], newest);
                prop_assert_eq!(arrivals.newest_gaps(usize::MAX), gaps);
            }
        }
    }

    #[test]
    fn what_no_gap_block_could_report_is_too_far() {
        let mut arrivals = Arrivals::new(Tsn::new(0));
        let cumulative = arrivals.cumulative();
        assert_eq!(arrivals.novelty(cumulative.advance(65535)), Novelty::New);
        assert_eq!(arrivals.novelty(cumulative.advance(65536)), Novelty::TooFar);
        assert_eq!(
            arrivals.novelty(cumulative.advance(1 << 31)),
            Novelty::Known
        );
        arrivals.insert(cumulative.advance(65535));
        let last = GapBlock {
            first: 65535,
            last: 65535,
        };
        assert_eq!(arrivals.newest_gaps(9), [last]);
    }
}
