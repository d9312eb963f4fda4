/// The recent numbers of a sequence that have arrived, in a ring of `WORDS` words of 64 numbers.
///
/// Source: RFC 6479 (a ring of words, cleared one word at a time).
#[derive(Clone, Debug, Default)]
pub struct NumberWindow<const WORDS: usize> {
    newest: Option<u64>,
    /// Bits of the recent numbers. Empty until the first number, since some windows are made in
    /// advance.
    words: Vec<u64>,
}

impl<const WORDS: usize> NumberWindow<WORDS> {
    /// Maximum distance of a number from the newest. One word is not counted, since the newest
    /// number's own word is only partly used.
    pub const REACH: u64 = (WORDS as u64 - 1) * BITS;

    /// True if `number` has certainly not arrived yet.
    pub fn is_new(&self, number: u64) -> bool {
        self.newest.is_none_or(|newest| number > newest)
            || self.reaches(number) && !self.contains(number)
    }

    /// True if `number` has certainly arrived.
    pub fn contains(&self, number: u64) -> bool {
        self.reaches(number) && self.words[Self::place(number)] & bit(number) != 0
    }

    /// Notes that `number` has arrived. One out of reach is left out.
    pub fn insert(&mut self, number: u64) {
        self.words.resize(WORDS, 0);
        if self.newest.is_none_or(|newest| number > newest) {
            let first_unused = self.newest.map_or(0, |newest| newest / BITS + 1);
            let last = number / BITS;
            let first = first_unused.max((last + 1).saturating_sub(WORDS as u64));
            for word in first..=last {
                self.words[Self::place(word * BITS)] = 0;
            }
            self.newest = Some(number);
        }
        if self.reaches(number) {
            self.words[Self::place(number)] |= bit(number);
        }
    }

    /// The number is not above the newest, nor too far below.
    fn reaches(&self, number: u64) -> bool {
        let newest = self.newest.filter(|newest| number <= *newest);
        newest.is_some_and(|newest| newest - number < Self::REACH)
    }

    fn place(number: u64) -> usize {
        (number / BITS) as usize % WORDS
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % BITS)
}

const BITS: u64 = u64::BITS as u64;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const WORDS: usize = 1024;
    const REACH: u64 = NumberWindow::<WORDS>::REACH;

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers_that_forgets_old_ones(
            steps in proptest::collection::vec(
                prop_oneof![
                    4 => (-200i64..200).boxed(),
                    1 => (-70_000i64..70_000).boxed(),
                    1 => Just(-(REACH as i64)).boxed(),
                    1 => Just(1 - REACH as i64).boxed(),
                ],
                1..200,
            )
        ) {
            let (mut window, mut model) = (NumberWindow::<WORDS>::default(), BTreeSet::new());
            for step in steps {
                let newest = model.last().copied().unwrap_or(0u64);
                let number = newest.saturating_add_signed(step);
                let is_new = !model.contains(&number) && number + REACH > newest;
                prop_assert_eq!(window.is_new(number), is_new, "{} after {}", number, newest);
                let is_known = model.contains(&number) && number + REACH > newest;
                prop_assert_eq!(window.contains(number), is_known, "{} after {}", number, newest);
                window.insert(number);
                model.insert(number);
            }
        }
    }
}
