//! Budgets for what peers make a process keep, and charges that are taken from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ByteCount;

/// A bound on memory, shared by all clones. It may be part of a larger one, which counts the same.
#[derive(Clone, Debug)]
pub struct Budget {
    ledger: Arc<Ledger>,
}

#[derive(Debug)]
struct Ledger {
    most: u64,
    held: AtomicU64,
    whole: Option<Budget>,
}

/// Bytes that are taken from a budget, and from the one that it is part of. They are given back
/// when this is dropped, so it lives as long as what it stands for.
#[derive(Debug)]
#[must_use = "a charge that is dropped is given back"]
pub struct Charge {
    budget: Budget,
    bytes: u64,
}

/// A budget has less left than was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} more than the {held} that are held would be above the {most} allowed")]
pub struct OverBudget {
    /// Bytes asked for.
    pub wanted: ByteCount,
    /// Bytes taken already.
    pub held: ByteCount,
    /// Bytes that may be taken.
    pub most: ByteCount,
}

impl Budget {
    /// A budget of its own.
    pub fn new(most: ByteCount) -> Self {
        Self::with(most, None)
    }

    /// A budget without a bound, which only counts.
    pub fn unbounded() -> Self {
        Self::new(ByteCount::new(u64::MAX))
    }

    /// A budget that is part of this one: what is taken from it is taken from both.
    pub fn part(&self, most: ByteCount) -> Self {
        Self::with(most, Some(self.clone()))
    }

    fn with(most: ByteCount, whole: Option<Self>) -> Self {
        Self {
            ledger: Arc::new(Ledger {
                most: most.as_u64(),
                held: AtomicU64::new(0),
                whole,
            }),
        }
    }

    /// Returns the bytes taken.
    pub fn held(&self) -> ByteCount {
        ByteCount::new(self.ledger.held.load(Ordering::Relaxed))
    }

    /// Returns the bytes that may be taken.
    pub fn most(&self) -> ByteCount {
        ByteCount::new(self.ledger.most)
    }

    /// True if more is taken than may be: of this budget, and of those that it is part of.
    pub fn is_over(&self) -> bool {
        let whole = self.ledger.whole.as_ref();
        self.held() > self.most() && whole.is_none_or(Self::is_over)
    }

    /// The most that a charge of `bytes` may become while all other charges stay as they are.
    fn room(&self, bytes: u64) -> u64 {
        let others = self.held().as_u64().saturating_sub(bytes);
        let own = self.ledger.most.saturating_sub(others);
        let whole = self.ledger.whole.as_ref();
        whole.map_or(own, |whole| own.min(whole.room(bytes)))
    }

    /// True if nothing but this clone knows of it, so that it may be forgotten.
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.ledger) == 1
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// When this budget, or the one that it is part of, has less left.
    pub fn charge(&self, bytes: ByteCount) -> Result<Charge, OverBudget> {
        let mut charge = self.empty_charge();
        charge.grow_to(bytes)?;
        Ok(charge)
    }

    /// A charge of nothing, which can grow.
    pub fn empty_charge(&self) -> Charge {
        Charge {
            budget: self.clone(),
            bytes: 0,
        }
    }

    /// Takes bytes whatever is left: for what something else bounds.
    pub fn noted(&self, bytes: ByteCount) -> Charge {
        let mut charge = self.empty_charge();
        charge.note(bytes);
        charge
    }

    fn take(&self, more: u64) -> Result<(), OverBudget> {
        let Ledger { most, held, whole } = &*self.ledger;
        let fits = |held: u64| held.checked_add(more).filter(|sum| sum <= most);
        held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits)
            .map_err(|held| OverBudget {
                wanted: ByteCount::new(more),
                held: ByteCount::new(held),
                most: ByteCount::new(*most),
            })?;
        let taken = whole.as_ref().map_or(Ok(()), |whole| whole.take(more));
        if taken.is_err() {
            held.fetch_sub(more, Ordering::Relaxed);
        }
        taken
    }

    /// Notes a change, whatever the bound is; `more` wraps where it becomes less.
    fn note(&self, more: u64) {
        self.ledger.held.fetch_add(more, Ordering::Relaxed);
        if let Some(whole) = &self.ledger.whole {
            whole.note(more);
        }
    }
}

impl Charge {
    /// The bytes.
    pub fn bytes(&self) -> ByteCount {
        ByteCount::new(self.bytes)
    }

    /// The budget that it is taken from.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Takes what is missing to `bytes`; gives nothing back.
    ///
    /// # Errors
    /// When the budget has less left; the charge is then what it was.
    pub fn grow_to(&mut self, bytes: ByteCount) -> Result<(), OverBudget> {
        let more = bytes.as_u64().saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Is `bytes` from now on, whatever the budget has left: for memory that is taken already, or
    /// was given back. Who uses this looks at [`Charge::room`] before it takes more.
    pub fn note(&mut self, bytes: ByteCount) {
        let bytes = bytes.as_u64();
        if bytes != self.bytes {
            self.budget.note(bytes.wrapping_sub(self.bytes));
            self.bytes = bytes;
        }
    }

    /// How large this charge may be, with all others of its budget, and of those that it is part
    /// of, as they are.
    pub fn room(&self) -> ByteCount {
        ByteCount::new(self.budget.room(self.bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.note(ByteCount::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn bytes(count: u64) -> ByteCount {
        ByteCount::new(count)
    }

    #[test]
    fn what_is_taken_from_a_part_is_taken_from_the_whole_until_it_is_dropped() {
        let whole = Budget::new(bytes(100));
        let (one, other) = (whole.part(bytes(60)), whole.part(bytes(60)));
        let first = one.charge(bytes(50)).unwrap();
        let refused = one.charge(bytes(11)).unwrap_err();
        assert_eq!((refused.held, refused.most), (bytes(50), bytes(60)));
        let mut second = other.charge(bytes(40)).unwrap();
        // There is room in the part, and none in the whole.
        let refused = other.charge(bytes(11)).unwrap_err();
        assert_eq!((refused.held, refused.most), (bytes(90), bytes(100)));
        assert_eq!(other.held(), bytes(40), "what is refused is not kept");
        assert_eq!(second.grow_to(bytes(50)), Ok(()));
        assert!(second.grow_to(bytes(51)).is_err());
        assert_eq!(second.bytes(), bytes(50));
        drop(first);
        assert_eq!((one.held(), whole.held()), (bytes(0), bytes(50)));
        drop(second);
        assert_eq!(whole.held(), bytes(0));
    }

    #[test]
    fn what_is_noted_counts_beyond_the_bound_and_leaves_no_room() {
        let whole = Budget::new(bytes(1000));
        let part = whole.part(bytes(1000));
        let (mut one, mut other) = (part.empty_charge(), part.empty_charge());
        one.note(bytes(900));
        other.note(bytes(600));
        assert_eq!(whole.held(), bytes(1500));
        one.note(bytes(300));
        assert_eq!((one.room(), other.room()), (bytes(400), bytes(700)));
        let mut third = part.empty_charge();
        third.note(bytes(200));
        assert_eq!(third.room(), bytes(100));
        drop((other, third));
        assert_eq!(whole.held(), bytes(300));
    }

    proptest! {
        #[test]
        fn no_sequence_of_charges_goes_beyond_a_bound(
            steps in prop::collection::vec((any::<bool>(), 0..2_usize, 0..200_u64), 1..60),
        ) {
            let whole = Budget::new(bytes(300));
            let parts = [whole.part(bytes(150)), whole.part(bytes(250))];
            let mut kept: Vec<(usize, Charge)> = Vec::new();
            for (takes, part, amount) in steps {
                if takes {
                    kept.extend(parts[part].charge(bytes(amount)).ok().map(|it| (part, it)));
                } else if !kept.is_empty() {
                    drop(kept.swap_remove(amount as usize % kept.len()));
                }
                let sum = |of: usize| {
                    let of = kept.iter().filter(|(part, _)| *part == of);
                    of.map(|(_, charge)| charge.bytes().as_u64()).sum::<u64>()
                };
                prop_assert_eq!(parts[0].held(), bytes(sum(0)));
                prop_assert_eq!(parts[1].held(), bytes(sum(1)));
                prop_assert_eq!(whole.held(), bytes(sum(0) + sum(1)));
                prop_assert!(sum(0) <= 150 && sum(1) <= 250 && sum(0) + sum(1) <= 300);
            }
        }
    }

    #[test]
    fn a_part_has_the_room_of_the_whole_and_is_over_only_with_it() {
        let whole = Budget::new(ByteCount::new(100));
        let [one, other] = [80, 40].map(|most| whole.part(ByteCount::new(most)));
        let held = one.noted(ByteCount::new(50));
        let more = other.noted(ByteCount::new(45));
        assert_eq!(held.room(), ByteCount::new(55));
        assert!(!other.is_over(), "there is room beside it");
        let last = whole.noted(ByteCount::new(10));
        assert!(other.is_over());
        assert!(!one.is_over(), "it has no more than its part");
        drop((held, more, last));
    }
}
