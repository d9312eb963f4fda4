//! One bound on the memory that all channels of a process read into.
//!
//! Large reads are cheap, and a channel keeps its buffers for the next ones. A peer that fills many
//! channels a little would make a process hold large buffers for each of them. So once all of them
//! together are at the bound, channels read little at a time and keep nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_types::ByteCount;

/// The bound, and what is held of it.
#[derive(Clone, Debug)]
pub(crate) struct ReadMemory {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    held: AtomicU64,
    limit: u64,
}

/// What one channel holds.
#[derive(Debug)]
pub(crate) struct Hold {
    pool: Arc<Pool>,
    bytes: u64,
}

impl ReadMemory {
    pub(crate) fn new(limit: ByteCount) -> Self {
        let (held, limit) = (AtomicU64::new(0), limit.as_u64());
        Self {
            pool: Arc::new(Pool { held, limit }),
        }
    }

    /// The bytes that all channels hold.
    pub(crate) fn held(&self) -> ByteCount {
        ByteCount::new(self.pool.held.load(Ordering::Relaxed))
    }

    /// The books of one more channel.
    pub(crate) fn hold(&self) -> Hold {
        Hold {
            pool: Arc::clone(&self.pool),
            bytes: 0,
        }
    }
}

impl Hold {
    /// Notes how many bytes the channel holds now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        if bytes == self.bytes {
            return;
        }
        // Wraps where it becomes less; the sum never does.
        let more = bytes.wrapping_sub(self.bytes);
        self.pool.held.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Returns how many bytes this channel may hold, so that all together are within the bound.
    pub(crate) fn room(&self) -> usize {
        let others = self.pool.held.load(Ordering::Relaxed) - self.bytes;
        usize::try_from(self.pool.limit.saturating_sub(others)).unwrap_or(usize::MAX)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_channels_hold_is_added_up_until_they_are_gone() {
        let memory = ReadMemory::new(ByteCount::new(1000));
        let (mut one, mut other) = (memory.hold(), memory.hold());
        one.set(900);
        other.set(600);
        one.set(300);
        assert_eq!(memory.held(), ByteCount::new(900));
        assert_eq!((one.room(), other.room()), (400, 700));
        let mut third = memory.hold();
        third.set(200);
        assert_eq!(third.room(), 100);
        drop((other, third));
        assert_eq!(memory.held(), ByteCount::new(300));
        drop(one);
        assert_eq!(memory.held(), ByteCount::ZERO);
    }
}
