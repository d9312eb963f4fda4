/// The recent numbers under one key that have arrived.
///
/// Source: RFC 6479 (a ring of words, cleared one word at a time).
#[derive(Debug, Default)]
pub(super) struct Window {
    newest: Option<u64>,
    /// Bits of the recent numbers. Empty until the first number, since most keys that were derived
    /// in advance are not used for long.
    words: Vec<u64>,
}

impl Window {
    /// True if `number` has certainly not arrived yet.
    pub(super) fn is_new(&self, number: u64) -> bool {
        match self.newest {
            Some(newest) if number <= newest => {
                newest - number < REACH && self.words[place(number)] & bit(number) == 0
            }
            _ => true,
        }
    }

    /// Notes that `number` has arrived.
    pub(super) fn insert(&mut self, number: u64) {
        self.words.resize(WORDS, 0);
        if self.newest.is_none_or(|newest| number > newest) {
            let first_unused = self.newest.map_or(0, |newest| newest / BITS + 1);
            let last = number / BITS;
            let first = first_unused.max((last + 1).saturating_sub(WORDS as u64));
            for word in first..=last {
                self.words[place(word * BITS)] = 0;
            }
            self.newest = Some(number);
        }
        self.words[place(number)] |= bit(number);
    }
}

fn place(number: u64) -> usize {
    (number / BITS) as usize % WORDS
}

fn bit(number: u64) -> u64 {
    1 << (number % BITS)
}

const BITS: u64 = u64::BITS as u64;
/// Length of the ring: 8 KiB. At 1 Gbit/s with packets of 1400 bytes it covers three quarters of a
/// second. That is more than the delays of paths for such a rate differ by. Later datagrams are
/// lost, as in a full queue.
const WORDS: usize = 1024;
/// Maximum distance of a number from the newest. One word is not counted, since the newest number's
/// own word is only partly used.
pub(super) const REACH: u64 = (WORDS as u64 - 1) * BITS;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

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
            let (mut window, mut model) = (Window::default(), BTreeSet::new());
            for step in steps {
                let newest = model.last().copied().unwrap_or(0u64);
                let number = newest.saturating_add_signed(step);
                let is_new = !model.contains(&number) && number + REACH > newest;
                prop_assert_eq!(window.is_new(number), is_new, "{} after {}", number, newest);
                if is_new {
                    window.insert(number);
                    model.insert(number);
                }
            }
        }
    }
}
