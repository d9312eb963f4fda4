//! Receive buffers for datagrams, one for each thread.
//!
//! A flow needs a buffer only while it is polled. A buffer of 64 KiB for each flow would be memory
//! that no budget counts, and clients open flows by the thousand.

use std::cell::Cell;

/// Lends the thread's buffer, which is longer than any datagram with a header in front of it. It
/// contains leftovers of earlier uses.
pub(crate) fn with_buffer<R>(work: impl FnOnce(&mut [u8]) -> R) -> R {
    // Taken out, so that `work` may call this function again: it then gets another buffer.
    let mut buffer = BUFFER
        .take()
        .unwrap_or_else(|| vec![0; LENGTH].into_boxed_slice());
    let result = work(&mut buffer);
    BUFFER.set(Some(buffer));
    result
}

thread_local! {
    static BUFFER: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// A datagram, with room for a header in front of it.
const LENGTH: usize = 65_535 + 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flows_of_a_thread_receive_into_the_same_memory() {
        let place = || with_buffer(|buffer| (buffer.as_ptr(), buffer.len()));
        let first = place();
        assert_eq!(first.1, LENGTH);
        assert_eq!(place(), first);
        // A flow that is polled by another one gets its own buffer.
        let (outer, inner) = with_buffer(|buffer| (buffer.as_ptr(), place().0));
        assert_ne!(outer, inner);
    }
}
