//! Memory that a thread reads and copies into, and uses again once no slice of it lives.
//!
//! The kernel clears each page of memory that it gives, which costs more than the copy into it. A
//! thread keeps at most 4 MiB that nothing uses.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use hawser_session::Arena;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads at most `max` bytes (at least one, at most 128 KiB), without copying them unless they are
/// few. Returns none at the end of what `reader` reads.
pub fn poll_read<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    max: usize,
) -> Poll<io::Result<Bytes>> {
    let max = max.max(1);
    with_arena(|arena| {
        // Half of what is asked for is enough, so that the end of a piece is used as well.
        let mut piece = arena.piece(max.div_ceil(2)).limit(max);
        // The future holds nothing between two polls: a new one goes on where the last one was.
        let read = pin!(reader.read_buf(&mut piece));
        ready!(read.poll(cx))?;
        Poll::Ready(Ok(arena.take()))
    })
}

/// Copies as many of `bytes` as fit the present piece of memory; never none, unless there are none.
pub(crate) fn copy(bytes: &[u8]) -> Bytes {
    with_arena(|arena| arena.copy(bytes))
}

fn with_arena<R>(run: impl FnOnce(&mut Arena) -> R) -> R {
    // Taken out, so that `run` may come here again: it then finds an empty one.
    let mut memory = MEMORY.take().unwrap_or_else(Memory::new);
    let result = run(&mut memory.arena);
    memory.trim();
    MEMORY.set(Some(memory));
    result
}

struct Memory {
    arena: Arena,
    trimmed_at: Instant,
}

impl Memory {
    fn new() -> Self {
        Self {
            arena: Arena::default(),
            trimmed_at: Instant::now(),
        }
    }

    fn trim(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.trimmed_at) >= TRIM_EVERY {
            self.trimmed_at = now;
            self.arena.trim();
        }
    }
}

thread_local! {
    static MEMORY: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

const TRIM_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn read(reader: &mut &[u8], max: usize) -> Bytes {
        let mut cx = Context::from_waker(Waker::noop());
        match poll_read(reader, &mut cx, max) {
            Poll::Ready(Ok(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reading_gives_every_byte_once_and_none_at_the_end() {
        let data: Vec<u8> = (0..1_000_000).map(|n: u32| (n / 7) as u8).collect();
        let mut reader = &data[..];
        let mut pieces = Vec::new();
        for max in [1, 5, 100_000, 128 * 1024, 20_000].into_iter().cycle() {
            let piece = read(&mut reader, max);
            assert!(piece.len() <= max);
            if piece.is_empty() {
                break;
            }
            pieces.push(piece);
        }
        assert_eq!(pieces.concat(), data);
    }

    #[test]
    fn a_reader_that_reads_here_as_well_gets_memory_of_its_own() {
        /// Reads from its slice through the thread's memory.
        struct Nested(&'static [u8]);

        impl AsyncRead for Nested {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let bytes = ready!(poll_read(&mut self.0, cx, buffer.remaining()))?;
                buffer.put_slice(&bytes);
                Poll::Ready(Ok(()))
            }
        }

        let mut cx = Context::from_waker(Waker::noop());
        let read = poll_read(&mut Nested(b"inner"), &mut cx, 100);
        assert!(matches!(read, Poll::Ready(Ok(bytes)) if bytes == "inner"));
    }
}
