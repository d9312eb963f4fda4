//! Some cells of the whole matrix, drawn by a seed.

use std::collections::BTreeMap;

use hawser_wire::TransportChoice;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::{Cell, Work};

/// Draws `count` different cells of all kinds of work and numbers of dying links, each over one of
/// `transports`.
///
/// Values are dealt evenly: after any number of cells each value of a rate, a queue and so on was
/// drawn as often as the others of its kind, or once more; and of the cells that keep that, those
/// come first whose values were seldom together. The first cells of a longer draw are those of a
/// shorter one.
pub fn draw(
    count: usize,
    seed: u64,
    transports: &[TransportChoice],
) -> Result<Vec<Cell>, CannotDraw> {
    let works = [Work::Bulk, Work::Requests, Work::Call];
    let mut left = Cell::combinations(&works, &[1, 2], transports);
    match count {
        0 => return Err(CannotDraw::Nothing),
        asked if asked > left.len() => {
            let cells = left.len();
            return Err(CannotDraw::TooMany { asked, cells });
        }
        _ => {}
    }
    left.shuffle(&mut SmallRng::seed_from_u64(seed));
    let mut drawn = Vec::new();
    let mut dealt = Dealt::default();
    while drawn.len() < count {
        let numbered = left.iter().enumerate();
        let Some((index, _)) = numbered.min_by_key(|(_, cell)| dealt.times(cell)) else {
            break;
        };
        let cell = left.remove(index);
        for pair in pairs(&cell) {
            *dealt.0.entry(pair).or_default() += 1;
        }
        drawn.push(cell);
    }
    Ok(drawn)
}

/// How often values, and pairs of values, were drawn so far.
#[derive(Debug, Default)]
struct Dealt(BTreeMap<[Value; 2], usize>);

/// The number of a kind of value, and the value.
type Value = (usize, u64);

impl Dealt {
    /// How often the cell's values were drawn, by themselves and together.
    fn times(&self, cell: &Cell) -> [usize; 2] {
        let mut sums = [0, 0];
        for [one, other] in pairs(cell) {
            let times = self.0.get(&[one, other]).copied().unwrap_or(0);
            sums[usize::from(one != other)] += times;
        }
        sums
    }
}

/// Every pair of values; each value is also a pair with itself.
fn pairs(cell: &Cell) -> impl Iterator<Item = [Value; 2]> {
    let values = values(cell);
    let numbered = move || values.into_iter().enumerate();
    numbered().flat_map(move |one| numbered().skip(one.0).map(move |other| [one, other]))
}

/// A number for each value, of one kind after another.
fn values(cell: &Cell) -> [u64; 8] {
    [
        cell.rate,
        cell.queue as u64,
        cell.loss.into(),
        cell.dies as u64,
        cell.dying as u64,
        cell.transport as u64,
        cell.direction as u64,
        cell.work as u64,
    ]
}

/// A number of cells that cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CannotDraw {
    /// No cell was asked for.
    #[error("0 cells: at least one has to be drawn")]
    Nothing,
    /// More were asked for than the matrix has.
    #[error("{asked} cells: the matrix has {cells}")]
    TooMany {
        /// The number that was asked for.
        asked: usize,
        /// The number of cells that there are.
        cells: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::super::{Dies, TRANSPORTS};
    use super::*;
    use crate::Direction;

    #[test]
    fn a_seed_always_draws_the_same_cells_and_another_one_others() {
        let of = |count, seed| draw(count, seed, &TRANSPORTS).unwrap();
        assert_eq!(of(24, 1), of(24, 1));
        assert_eq!(of(24, 1)[..3], of(3, 1));
        assert_ne!(of(24, 1), of(24, 2));
    }

    #[test]
    fn every_value_is_drawn_as_often_as_the_others_of_its_kind() {
        for seed in 0..5 {
            let cells = draw(24, seed, &TRANSPORTS).unwrap();
            // Of each kind: how many different values there are.
            for (kind, different) in [4, 2, 4, 3, 2, 2, 2, 3].into_iter().enumerate() {
                let mut times: BTreeMap<u64, usize> = BTreeMap::new();
                for cell in &cells {
                    *times.entry(values(cell)[kind]).or_default() += 1;
                }
                assert_eq!(times.len(), different, "seed {seed}, kind {kind}");
                let even = times.values().all(|times| *times == 24 / different);
                assert!(even, "seed {seed}, kind {kind}: {times:?}");
            }
        }
    }

    #[test]
    fn values_are_drawn_together_as_often_as_others() {
        for seed in 0..5 {
            let cells = draw(24, seed, &TRANSPORTS).unwrap();
            let count = |is: fn(&Cell) -> bool| cells.iter().filter(|cell| is(cell)).count();
            let puts = count(|cell| {
                cell.direction == Direction::Put && cell.transport == TransportChoice::Tcp
            });
            let requests = count(|cell| cell.work == Work::Requests && cell.dies == Dies::During);
            assert!((5..=7).contains(&puts), "seed {seed}: {puts}");
            assert!((1..=4).contains(&requests), "seed {seed}: {requests}");
        }
    }

    #[test]
    fn no_cell_is_drawn_twice() {
        let cells = draw(100, 1, &[TransportChoice::Auto]).unwrap();
        assert!(cells.iter().all(|it| it.transport == TransportChoice::Auto));
        let different: std::collections::BTreeSet<_> = cells.iter().map(values).collect();
        assert_eq!(different.len(), 100);
    }

    #[test]
    fn nothing_and_more_than_there_is_are_refused() {
        assert_eq!(draw(0, 1, &TRANSPORTS), Err(CannotDraw::Nothing));
        let (asked, cells) = (2305, 2304);
        let refused = Err(CannotDraw::TooMany { asked, cells });
        assert_eq!(draw(asked, 1, &TRANSPORTS), refused);
        assert!(draw(1, 1, &[]).is_err());
    }
}
