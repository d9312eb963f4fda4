//! Memory of read buffers that payloads keep alive.
//!
//! A payload is mostly a slice of the buffer that it was read into. While it waits for its reader
//! the whole buffer stays, whatever became of the rest. So a buffer is charged once, by its real
//! size, from the first payload in it that waits until the last one is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_types::{ByteCount, ChannelId};

/// A buffer that a record is a slice of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadBuffer {
    /// Tells it from the other buffers of its channel.
    pub number: u64,
    /// All of its memory.
    pub size: ByteCount,
}

/// A payload's hold on the buffer that it is a slice of. The buffer is charged while any is left.
#[derive(Debug)]
pub(crate) struct Pin {
    buffer: ReadBuffer,
    /// Charges of a session.
    total: Arc<AtomicU64>,
}

/// The buffers of a session's channels that are charged.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffers {
    total: Arc<AtomicU64>,
    /// The buffer that each channel's latest payload is in.
    current: BTreeMap<ChannelId, Arc<Pin>>,
}

impl ReadBuffers {
    /// Charges the buffer of a channel's payload, unless another payload in it is there.
    pub(crate) fn pin(&mut self, channel: ChannelId, buffer: ReadBuffer) -> Arc<Pin> {
        let current = self.current.get(&channel);
        if let Some(pin) = current.filter(|pin| pin.buffer == buffer) {
            return Arc::clone(pin);
        }
        self.total
            .fetch_add(buffer.size.as_u64(), Ordering::Relaxed);
        let pin = Arc::new(Pin {
            buffer,
            total: Arc::clone(&self.total),
        });
        self.current.insert(channel, Arc::clone(&pin));
        pin
    }

    /// Returns the bytes of the buffers that payloads keep alive, or some more: the latest buffer
    /// of each channel counts even where no payload is left.
    pub(crate) fn at_most(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the buffers that payloads keep alive.
    pub(crate) fn bytes(&self) -> u64 {
        let idle = self
            .current
            .values()
            .filter(|pin| Arc::strong_count(pin) == 1);
        let idle: u64 = idle.map(|pin| pin.buffer.size.as_u64()).sum();
        self.at_most().saturating_sub(idle)
    }

    /// Forgets a channel that is gone.
    pub(crate) fn forget(&mut self, channel: ChannelId) {
        self.current.remove(&channel);
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.total
            .fetch_sub(self.buffer.size.as_u64(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_charged_once_while_any_slice_of_it_lives() {
        let mut buffers = ReadBuffers::default();
        let (one, other) = (ChannelId::new(1), ChannelId::new(2));
        let buffer = |number| ReadBuffer {
            number,
            size: ByteCount::new(1000),
        };
        let first = buffers.pin(one, buffer(1));
        let second = buffers.pin(one, buffer(1));
        assert_eq!(buffers.bytes(), 1000);
        let elsewhere = buffers.pin(other, buffer(1));
        assert_eq!(buffers.bytes(), 2000);
        drop(first);
        let third = buffers.pin(one, buffer(2));
        assert_eq!(buffers.bytes(), 3000);
        drop(second);
        assert_eq!(buffers.bytes(), 2000);
        drop((third, elsewhere));
        assert_eq!((buffers.bytes(), buffers.at_most()), (0, 2000));
        buffers.forget(one);
        buffers.forget(other);
        assert_eq!(buffers.at_most(), 0);
    }
}
