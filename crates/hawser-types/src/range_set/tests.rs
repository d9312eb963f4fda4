#![expect(
    clippy::single_range_in_vec_init,
    reason = "one range is what these sets hold"
)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn ranges(set: &RangeSet) -> Vec<Range<u64>> {
    set.iter().collect()
}

#[test]
fn touching_ranges_become_one() {
    let mut set = RangeSet::new();
    assert_eq!(set.insert(10..20), 10);
    assert_eq!(set.insert(30..40), 10);
    assert_eq!(set.insert(20..30), 10);
    assert_eq!((ranges(&set), set.prefix()), (vec![10..40], 0));
    assert_eq!(set.insert(15..35), 0, "a duplicate adds nothing");
    assert_eq!(set.insert(0..50), 20);
    assert_eq!((ranges(&set), set.prefix()), (vec![0..50], 50));
}

#[test]
fn the_parts_that_were_not_there_are_told_once() {
    let mut set: RangeSet = [10..20, 30..40].into_iter().collect();
    let mut fresh = Vec::new();
    set.insert_with(12..18, |part| fresh.push(part));
    assert_eq!(fresh, []);
    set.insert_with(5..35, |part| fresh.push(part));
    assert_eq!(fresh, [5..10, 20..30]);
    assert_eq!(set.find(39), Some(5..40));
}

#[test]
fn the_first_range_is_taken_when_the_number_has_reached_it() {
    let mut set: RangeSet = [7..41, 50..60].into_iter().collect();
    assert_eq!(set.pop_first_from(6), None);
    assert_eq!(set.pop_first_from(8), Some(7..41));
    assert_eq!((set.total(), set.end()), (10, 60));
}

#[test]
fn numbers_up_to_the_largest_are_held() {
    const GIB: u64 = 1 << 30;
    let size = 9 * GIB + 7;
    let mut set = RangeSet::new();
    set.insert(4 * GIB - 1..4 * GIB + 1);
    set.insert(8 * GIB + 3..size);
    let gaps: Vec<_> = set.gaps(size).collect();
    assert_eq!(gaps, [0..4 * GIB - 1, 4 * GIB + 1..8 * GIB + 3]);
    assert_eq!(set.total(), 2 + GIB + 4);
    assert_eq!(set.insert(u64::MAX - 1..u64::MAX), 1);
    assert!(set.covers(&(u64::MAX - 1..u64::MAX)));
    assert_eq!(set.insert(0..u64::MAX), u64::MAX - 1 - (2 + GIB + 4));
    assert_eq!((set.total(), set.range_count()), (u64::MAX, 1));
}

#[derive(Clone, Debug)]
enum TestOp {
    Insert(Range<u64>),
    Remove(Range<u64>),
    RemoveBelow(u64),
    PopFirstFrom(u64),
}

fn any_op() -> impl Strategy<Value = TestOp> {
    let range = || (0..200_u64, 0..40_u64).prop_map(|(start, length)| start..start + length);
    prop_oneof![
        6 => range().prop_map(TestOp::Insert),
        2 => range().prop_map(TestOp::Remove),
        1 => (0..100_u64).prop_map(TestOp::RemoveBelow),
        1 => (0..100_u64).prop_map(TestOp::PopFirstFrom),
    ]
}

/// Applies one operation to both; says whether they answer the same.
fn agree(set: &mut RangeSet, model: &mut BTreeSet<u64>, op: TestOp) -> Result<(), TestCaseError> {
    match op {
        TestOp::Insert(range) => {
            prop_assert_eq!(
                set.covers(&range),
                range.clone().all(|n| model.contains(&n))
            );
            prop_assert_eq!(
                set.is_disjoint(&range),
                !range.clone().any(|n| model.contains(&n))
            );
            let expected: Vec<_> = range.clone().filter(|n| model.insert(*n)).collect();
            let mut fresh = Vec::new();
            set.clone()
                .insert_with(range.clone(), |part| fresh.extend(part));
            prop_assert_eq!(&fresh, &expected);
            prop_assert_eq!(set.insert(range), expected.len() as u64);
        }
        TestOp::Remove(range) => {
            let gone = range.clone().filter(|n| model.remove(n)).count();
            prop_assert_eq!(set.remove(range), gone as u64);
        }
        TestOp::RemoveBelow(number) => {
            model.retain(|n| *n >= number);
            set.remove_below(number);
        }
        TestOp::PopFirstFrom(number) => {
            let first = model.first().copied().filter(|first| *first <= number);
            let range = first.map(|first| {
                let length = (first..).take_while(|n| model.remove(n)).count() as u64;
                first..first + length
            });
            prop_assert_eq!(set.pop_first_from(number), range);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn it_holds_what_a_set_of_numbers_holds(
        ops in prop::collection::vec(any_op(), 0..60),
        size in 0..150_u64,
    ) {
        let (mut set, mut model) = (RangeSet::new(), BTreeSet::new());
        for op in ops {
            agree(&mut set, &mut model, op)?;
        }
        prop_assert!(ranges(&set).windows(2).all(|pair| pair[0].end < pair[1].start));
        prop_assert!(set.iter().all(|range| !range.is_empty()));
        let held: Vec<u64> = set.iter().flatten().collect();
        prop_assert_eq!(&held, &model.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(set.total(), model.len() as u64);
        prop_assert_eq!(set.is_empty(), model.is_empty());
        prop_assert_eq!(set.range_count(), set.iter().count());
        prop_assert_eq!(set.end(), model.last().map_or(0, |last| last + 1));
        let prefix = (0..).take_while(|n| model.contains(n)).count() as u64;
        prop_assert_eq!(set.prefix(), prefix);
        for n in 0..250 {
            prop_assert_eq!(set.contains(n), model.contains(&n));
        }
        let missing: Vec<u64> = set.gaps(size).flatten().collect();
        let expected: Vec<u64> = (0..size).filter(|n| !model.contains(n)).collect();
        prop_assert_eq!(missing, expected);
    }
}
