use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hawser_types::Instant;

/// What is to happen, in the order of time; at one time in the order in which it was planned.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    order: u64,
    what: T,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            count: 0,
        }
    }

    pub(crate) fn push(&mut self, at: Instant, what: T) {
        let order = self.count;
        self.count += 1;
        self.heap.push(Reverse(Entry { at, order, what }));
    }

    pub(crate) fn pop(&mut self) -> Option<(Instant, T)> {
        let Reverse(entry) = self.heap.pop()?;
        Some((entry.at, entry.what))
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
