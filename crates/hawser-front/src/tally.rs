use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts by reason. For rare events: it takes a lock.
#[derive(Debug)]
pub(crate) struct Tally<R> {
    counts: Mutex<BTreeMap<R, u64>>,
}

impl<R> Default for Tally<R> {
    fn default() -> Self {
        Self {
            counts: Mutex::new(BTreeMap::new()),
        }
    }
}

impl<R: Ord + Clone> Tally<R> {
    pub(crate) fn add(&self, reason: R) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(reason).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<R, u64> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Counts something as present for as long as it lives.
#[derive(Debug)]
pub(crate) struct Present<'a>(&'a AtomicU64);

impl<'a> Present<'a> {
    pub(crate) fn new(counter: &'a AtomicU64) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
