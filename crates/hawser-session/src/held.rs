use std::collections::VecDeque;

/// Chunks that came before their turn, by their offset.
///
/// A tree of two levels, the lower one made of blocks that are used again: what comes and goes all
/// the time allocates nothing, and no order of arrival makes an insertion cost more than a block
/// and one place in the list of blocks.
#[derive(Debug)]
pub(crate) struct Held<T> {
    /// In order, none empty, none longer than [`BLOCK`].
    blocks: VecDeque<Block<T>>,
    spare: Vec<Block<T>>,
}

type Block<T> = VecDeque<(u64, T)>;

impl<T> Held<T> {
    /// The chunk that begins at `start`.
    pub(crate) fn get(&self, start: u64) -> Option<&T> {
        let (at, bytes) = self.before(start.checked_add(1)?)?;
        (at == start).then_some(bytes)
    }

    /// The last chunk that begins before `end`, and where.
    pub(crate) fn before(&self, end: u64) -> Option<(u64, &T)> {
        let block = self.blocks.get(self.blocks_before(end).checked_sub(1)?)?;
        let place = block.partition_point(|(at, _)| *at < end);
        let (at, bytes) = block.get(place.checked_sub(1)?)?;
        Some((*at, bytes))
    }

    /// The last chunk, and where it begins.
    pub(crate) fn last(&self) -> Option<(u64, &T)> {
        let (at, bytes) = self.blocks.back()?.back()?;
        Some((*at, bytes))
    }

    /// Takes in a chunk that overlaps none that is held.
    pub(crate) fn insert(&mut self, start: u64, bytes: T) {
        let mut index = self.blocks_before(start).saturating_sub(1);
        let Some(block) = self.blocks.get_mut(index) else {
            let mut block = self.spare.pop().unwrap_or_default();
            block.push_back((start, bytes));
            self.blocks.push_back(block);
            return;
        };
        let mut place = block.partition_point(|(at, _)| *at < start);
        if block.len() == BLOCK {
            // Chunks that come in order leave full blocks behind.
            let kept = if place == BLOCK { BLOCK } else { BLOCK / 2 };
            let mut upper = self.spare.pop().unwrap_or_default();
            upper.extend(block.drain(kept..));
            self.blocks.insert(index + 1, upper);
            if place >= kept {
                (index, place) = (index + 1, place - kept);
            }
        }
        self.blocks[index].insert(place, (start, bytes));
    }

    /// Takes out the first chunk, if it begins at `start`.
    pub(crate) fn take_first(&mut self, start: u64) -> Option<T> {
        let block = self.blocks.front_mut()?;
        block.front().filter(|(at, _)| *at == start)?;
        let (_, bytes) = block.pop_front()?;
        if block.is_empty()
            && let Some(block) = self.blocks.pop_front()
            && self.spare.len() < SPARE
        {
            self.spare.push(block);
        }
        Some(bytes)
    }

    /// Takes out everything, in order.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = (u64, T)> + use<T> {
        std::mem::take(&mut self.blocks).into_iter().flatten()
    }

    /// Returns all chunks, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.blocks.iter_mut().flatten().map(|(_, chunk)| chunk)
    }

    /// Returns the number of blocks with a chunk that begins before `offset`.
    fn blocks_before(&self, offset: u64) -> usize {
        let begins = |block: &Block<T>| block.front().is_some_and(|(at, _)| *at < offset);
        self.blocks.partition_point(begins)
    }
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self {
            blocks: VecDeque::new(),
            spare: Vec::new(),
        }
    }
}

/// Chunks in a block.
const BLOCK: usize = 64;
/// Blocks that are kept for later: of the usual chunks, more than most paths differ by.
const SPARE: usize = 4;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    const CHUNK: Bytes = Bytes::from_static(b"chunk");

    #[test]
    fn what_comes_in_order_fills_blocks_and_what_goes_leaves_few_behind() {
        let mut held = Held::default();
        let count = 10 * BLOCK as u64;
        (0..count).for_each(|at| held.insert(at, CHUNK));
        assert_eq!(held.blocks.len(), 10);
        assert!((0..count).all(|at| held.take_first(at).is_some()));
        assert_eq!((held.blocks.len(), held.spare.len()), (0, SPARE));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_map_holds(
            steps in prop::collection::vec((any::<bool>(), 0..2000_u64), 0..3000),
        ) {
            let (mut held, mut map) = (Held::default(), BTreeMap::new());
            for (takes, at) in steps {
                let first = map.first_key_value().map(|(at, _)| *at);
                if takes && at % 2 == 0 {
                    let start = first.unwrap_or(at);
                    prop_assert_eq!(held.take_first(start + 1), None);
                    prop_assert_eq!(held.take_first(start).is_some(), map.remove(&start).is_some());
                } else if let Entry::Vacant(place) = map.entry(at) {
                    place.insert(CHUNK);
                    held.insert(at, CHUNK);
                }
                let before = map.range(..at).next_back().map(|(at, bytes)| (*at, bytes));
                prop_assert_eq!(held.before(at), before);
                prop_assert_eq!(held.get(at), map.get(&at));
                prop_assert_eq!(held.last(), map.last_key_value().map(|(at, b)| (*at, b)));
                prop_assert!(held.blocks.iter().all(|block| (1..=BLOCK).contains(&block.len())));
            }
            prop_assert!(held.take_all().eq(map));
        }
    }
}
