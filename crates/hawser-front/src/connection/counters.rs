use std::sync::atomic::{AtomicU64, Ordering};

use hawser_director::Progress;
use hawser_types::{ByteCount, Instant};

/// Bytes that a connection has moved so far, counted without the director's lock.
#[derive(Debug, Default)]
pub(super) struct Counters {
    up: AtomicU64,
    down: AtomicU64,
    /// The time at which the far end was last heard of, where that is known; else 0.
    heard: AtomicU64,
    /// The time after which bytes were moved that were not read yet; 0 where that is the time of
    /// the last read.
    since: AtomicU64,
}

impl Counters {
    /// So many more bytes were sent and received.
    pub(super) fn add(&self, up: ByteCount, down: ByteCount) {
        self.up.fetch_add(up.as_u64(), Ordering::Relaxed);
        self.down.fetch_add(down.as_u64(), Ordering::Relaxed);
    }

    /// Bytes that are added next were moved after `since`, unless others wait to be read that may
    /// have been moved before.
    pub(super) fn set_since(&self, since: Instant) {
        let (since, order) = (since.as_nanos(), Ordering::Relaxed);
        let _ = self.since.compare_exchange(0, since, order, order);
    }

    /// A packet of the far end came at this time.
    pub(super) fn set_heard(&self, at: Instant) {
        self.heard.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// Returns the progress up to now; the next one goes on from there.
    pub(super) fn take(&self) -> Progress {
        let bytes = |counter: &AtomicU64| ByteCount::new(counter.load(Ordering::Relaxed));
        let time = |nanos: u64| (nanos != 0).then(|| Instant::from_nanos(nanos));
        Progress {
            // In this order, since it is written in the other one.
            since: time(self.since.swap(0, Ordering::Relaxed)),
            moved: [bytes(&self.up), bytes(&self.down)],
            heard: time(self.heard.load(Ordering::Relaxed)),
        }
    }
}
