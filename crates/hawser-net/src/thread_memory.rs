//! Memory that a thread reads and copies into, and reuses once no slice of the memory is left.
//!
//! The kernel clears each page of new memory, which costs more than the copy into it. A thread
//! keeps at most 4 MiB of unused memory, and gives it back within half a minute of its last read.

use std::io;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes};
use hawser_session::Arena;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads at most `max` bytes (at least one, at most 128 KiB), without copying them unless they are
/// few. Returns no bytes at the end of `reader`.
pub fn poll_read<R: AsyncRead + Unpin + ?Sized>(
    reader: &mut R,
    cx: &mut Context<'_>,
    max: usize,
) -> Poll<io::Result<Bytes>> {
    let max = max.max(1);
    with_arena(|arena| {
        // Half of `max` is enough, so that the end of a piece is used as well.
        let mut piece = arena.piece(max.div_ceil(2)).limit(max);
        // The future holds nothing between two polls: a new one continues the read.
        let read = pin!(reader.read_buf(&mut piece));
        ready!(read.poll(cx))?;
        Poll::Ready(Ok(arena.take()))
    })
}

/// Copies as many of `bytes` as fit the present piece of memory: at least one, if there is any.
pub(crate) fn copy(bytes: &[u8]) -> Bytes {
    with_arena(|arena| arena.copy(bytes))
}

/// Gives back the memory that threads keep and do not need, every few seconds, for ever. A thread
/// that reads does so by itself; this is for threads that wait.
pub async fn trim_regularly() {
    loop {
        tokio::time::sleep(TRIM_ALL_EVERY).await;
        trim_all(Instant::now());
    }
}

/// Trims the memory of all threads, except memory in use.
fn trim_all(now: Instant) {
    THREADS.lock().retain(|memory| {
        let Some(memory) = memory.upgrade() else {
            return false;
        };
        if let Some(mut memory) = memory.try_lock() {
            memory.trim(now);
        }
        true
    });
}

fn with_arena<R>(run: impl FnOnce(&mut Arena) -> R) -> R {
    MEMORY.with(|memory| match memory.try_lock() {
        Some(mut memory) => {
            let result = run(&mut memory.arena);
            memory.trim(Instant::now());
            result
        }
        // `run` called this function again, or another thread is trimming.
        None => run(&mut Arena::default()),
    })
}

struct Memory {
    arena: Arena,
    trimmed_at: Instant,
}

impl Memory {
    /// The memory of a new thread, which is trimmed with all others until the thread ends.
    fn of_thread() -> Arc<Mutex<Self>> {
        let memory = Arc::new(Mutex::new(Self {
            arena: Arena::default(),
            trimmed_at: Instant::now(),
        }));
        let mut threads = THREADS.lock();
        threads.retain(|other| other.strong_count() > 0);
        threads.push(Arc::downgrade(&memory));
        memory
    }

    fn trim(&mut self, now: Instant) {
        if now.duration_since(self.trimmed_at) >= TRIM_EVERY {
            self.trimmed_at = now;
            self.arena.trim();
        }
    }
}

thread_local! {
    static MEMORY: Arc<Mutex<Memory>> = Memory::of_thread();
}

/// The memory of all threads that have read and still run. An arena is consistent whenever code
/// outside of it runs, also after a panic.
static THREADS: Mutex<Vec<Weak<Mutex<Memory>>>> = Mutex::new(Vec::new());

const TRIM_EVERY: Duration = Duration::from_secs(1);
const TRIM_ALL_EVERY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
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

    #[test]
    fn a_thread_that_waits_gives_back_what_it_kept() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let reader = std::thread::spawn(move || {
            let data = vec![7; 1 << 20];
            let mut reader = &data[..];
            while !read(&mut reader, 100_000).is_empty() {}
            tell.send(MEMORY.with(Arc::clone)).unwrap();
            // Goes on and reads nothing more.
            let _ = ended.recv();
        });
        let memory = told.recv().unwrap();
        let holds = || memory.lock().arena.holds_memory();
        assert!(holds());
        let now = Instant::now();
        trim_all(now + TRIM_ALL_EVERY);
        trim_all(now + 2 * TRIM_ALL_EVERY);
        assert!(!holds());

        let listed = Arc::downgrade(&memory);
        drop((memory, end));
        reader.join().unwrap();
        trim_all(now);
        assert!(THREADS.lock().iter().all(|other| !other.ptr_eq(&listed)));
    }
}
