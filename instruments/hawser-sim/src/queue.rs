use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hawser_types::Instant;

/// What is to happen, in the order of time; at one time in the order in which it was planned.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
    /// How much has happened since time last moved.
    at_once: u32,
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
            at_once: 0,
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

    /// Takes what happens next, at `until` at most, and lets time pass up to it.
    ///
    /// # Panics
    /// When time stands still: a timer that asks for the past again and again would keep a
    /// processor busy.
    pub(crate) fn step(&mut self, until: Instant, now: &mut Instant) -> Option<(Instant, T)> {
        self.next_at().filter(|at| *at <= until)?;
        let (at, what) = self.pop()?;
        self.at_once = if at > *now { 0 } else { self.at_once + 1 };
        assert!(self.at_once < MAX_AT_ONCE, "time stands still");
        *now = at.max(*now);
        Some((at, what))
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

pub(crate) const MAX_AT_ONCE: u32 = 1_000_000;
