use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Counts by reason. For rare events, as adding takes a lock.
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
        let mut counts = self.counts.lock();
        *counts.entry(reason).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<R, u64> {
        self.counts.lock().clone()
    }
}

/// Increments a counter for as long as it lives.
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

/// Limits a log line to once a minute, however often its event happens.
#[derive(Debug, Default)]
pub(crate) struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    /// True if the line is due; it then counts as logged.
    pub(crate) fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut said = self.0.lock();
        let is_due = said.is_none_or(|said| now - said >= PAUSE);
        if is_due {
            *said = Some(now);
        }
        is_due
    }
}

const PAUSE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_happens_often_is_said_once_in_a_minute() {
        let seldom = Seldom::default();
        let said = (0..5).map(|_| seldom.is_due());
        assert_eq!(said.filter(|is_due| *is_due).count(), 1);
        tokio::time::advance(PAUSE).await;
        assert!(seldom.is_due());
        assert!(!seldom.is_due());
    }
}
