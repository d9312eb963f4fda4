//! Limit of the data in all streams of a session before chunks are cut from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_types::ByteCount;

/// The send buffers of all streams of a session.
///
/// One stream may hold a quarter of what all of them together leave free, at most 1 MiB and at
/// least 16 KiB. So a few streams have all that they can use, and many are within the bound
/// together, however many wait.
///
/// Source: dynamic thresholds of shared-memory switches (Choudhury and Hahne 1998), α = 1/4.
#[derive(Clone, Debug)]
pub(crate) struct SendBuffers(Arc<SharedBuffers>);

#[derive(Debug)]
struct SharedBuffers {
    most: AtomicU64,
    queued: AtomicU64,
}

/// The buffer of one stream: counts what waits in it. What it has counted goes with it.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    all: SendBuffers,
    queued: u64,
}

impl SendBuffers {
    /// Buffers of at most so much together.
    pub(crate) fn new(most: ByteCount) -> Self {
        Self(Arc::new(SharedBuffers {
            most: AtomicU64::new(most.as_u64()),
            queued: AtomicU64::new(0),
        }))
    }

    /// Lets all together hold so much from now on. What is in them stays.
    pub(crate) fn set_most(&self, most: ByteCount) {
        self.0.most.store(most.as_u64(), Ordering::Relaxed);
    }

    /// An empty buffer.
    pub(crate) fn buffer(&self) -> SendBuffer {
        SendBuffer {
            all: self.clone(),
            queued: 0,
        }
    }
}

impl SendBuffer {
    /// Bytes in it.
    pub(crate) fn queued(&self) -> u64 {
        self.queued
    }

    /// Most bytes that may be in it now.
    pub(crate) fn limit(&self) -> u64 {
        let most = self.all.0.most.load(Ordering::Relaxed);
        let free = most.saturating_sub(self.all.0.queued.load(Ordering::Relaxed));
        (free / 4).clamp(LEAST, MOST)
    }

    /// Notes that so many bytes were put into it.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.queued += bytes;
        self.all.0.queued.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes that so many bytes left it, of those that are in it.
    pub(crate) fn take(&mut self, bytes: u64) {
        let bytes = bytes.min(self.queued);
        self.queued -= bytes;
        self.all.0.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Notes that it is empty.
    pub(crate) fn clear(&mut self) {
        self.take(self.queued);
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Bytes that an application may write ahead of the links where there is enough memory.
const MOST: u64 = 1 << 20;
/// A stream that has less hardly moves: as much as the memory of each stream that is announced.
const LEAST: u64 = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_streams_have_all_they_can_use_and_many_stay_within_the_bound() {
        let all = SendBuffers::new(ByteCount::from_mib(8));
        let fill = |_| {
            let mut buffer = all.buffer();
            buffer.add(buffer.limit());
            buffer
        };
        let few: Vec<_> = (0..4).map(fill).collect();
        assert!(few.iter().all(|buffer| buffer.queued() == 1 << 20));
        let many: Vec<_> = (0..100).map(fill).collect();
        let total: u64 = few.iter().chain(&many).map(SendBuffer::queued).sum();
        assert!(total <= (8 << 20) + 100 * LEAST, "{total}");
        assert_eq!(all.buffer().limit(), LEAST);
    }

    #[test]
    fn what_a_stream_held_is_free_again_once_it_is_over() {
        let all = SendBuffers::new(ByteCount::from_mib(1));
        let mut buffer = all.buffer();
        buffer.add(1 << 20);
        assert_eq!(all.buffer().limit(), LEAST);
        buffer.take(1 << 19);
        assert_eq!(all.buffer().limit(), 1 << 17);
        drop(buffer);
        assert_eq!(all.buffer().limit(), 1 << 18);
    }
}
