use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hawser_types::{ByteCount, Charge};

use crate::transport::{ByteStream, ResetCode};

/// One direction of a relay: reads, holds unwritten bytes, passes on the end.
#[derive(Debug)]
pub(super) struct Direction {
    /// Bytes that were read and not yet written.
    held: Bytes,
    /// Bytes of memory that `held` keeps, at most.
    memory: usize,
    /// The charge for that memory, while the writer takes nothing.
    charge: Charge,
    /// Size of the next read. It grows when a read fills it, so that only fast streams fill large
    /// buffers.
    read_size: usize,
    source: Source,
    needs_flush: bool,
    done: bool,
    moved: u64,
}

/// Which side of a direction broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The reader. Reported once all data read from it has been written.
    Reader(ResetCode),
    Writer(ResetCode),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Open,
    Ended,
    Broken(ResetCode),
}

impl Direction {
    /// Creates a direction that writes `early` before anything else, and charges held bytes to
    /// `charge`.
    pub(super) fn new(early: Vec<u8>, charge: Charge) -> Self {
        Self {
            charge,
            memory: early.len(),
            held: early.into(),
            read_size: MIN_READ,
            source: Source::Open,
            needs_flush: false,
            done: false,
            moved: 0,
        }
    }

    pub(super) fn moved(&self) -> ByteCount {
        ByteCount::new(self.moved)
    }

    /// True if all was written and the end was passed on, or the direction was given up.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// True if the reader has nothing more to give.
    pub(super) fn has_ended(&self) -> bool {
        self.source != Source::Open
    }

    pub(super) fn give_up(&mut self) {
        self.done = true;
        self.held = Bytes::new();
        self.charge.note(ByteCount::ZERO);
    }

    /// Moves all bytes that can be moved. Ready when the direction is done; with `shut`, the end is
    /// passed on to the writer.
    pub(super) fn poll<R: ByteStream, W: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
        counter: &AtomicU64,
        shut: bool,
    ) -> Poll<Result<(), Broken>> {
        if self.done {
            return Poll::Ready(Ok(()));
        }
        let mut budget = POLL_BUDGET;
        loop {
            ready!(self.poll_write_held(cx, writer, counter))?;
            match self.source {
                Source::Open => {}
                Source::Broken(code) => {
                    self.done = true;
                    return Poll::Ready(Err(Broken::Reader(code)));
                }
                Source::Ended => {
                    if shut {
                        ready!(Pin::new(writer).poll_shutdown(cx)).map_err(writer_broke)?;
                    }
                    self.done = true;
                    return Poll::Ready(Ok(()));
                }
            }
            if budget == 0 {
                // Other tasks on this thread get a turn.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            budget -= 1;
            // Bytes beyond the writer's room would be held here.
            let most = writer
                .write_room()
                .map_or(usize::MAX, |room| room.max(MIN_READ))
                .min(self.room());
            if self.poll_read(cx, reader, most).is_pending() {
                ready!(self.poll_flush(cx, writer))?;
                return Poll::Pending;
            }
        }
    }

    fn poll_read<R: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        most: usize,
    ) -> Poll<()> {
        match ready!(reader.poll_read_bytes(cx, self.read_size.min(most))) {
            Ok(bytes) if bytes.is_empty() => self.source = Source::Ended,
            Ok(bytes) => {
                if bytes.len() == self.read_size {
                    self.read_size = (self.read_size * 2).min(MAX_HELD);
                } else if bytes.len() < self.read_size.min(most) / 4 {
                    self.read_size = (self.read_size / 2).max(MIN_READ);
                }
                self.memory = MAX_HELD;
                self.held = bytes;
            }
            Err(error) => self.source = Source::Broken(ResetCode::from_io(&error)),
        }
        Poll::Ready(())
    }

    fn poll_write_held<W: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
        counter: &AtomicU64,
    ) -> Poll<Result<(), Broken>> {
        while !self.held.is_empty() {
            match writer.poll_write_bytes(cx, &mut self.held) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(Broken::Writer(ResetCode::Aborted)));
                }
                Poll::Ready(Ok(written)) => {
                    self.moved = self.moved.saturating_add(written as u64);
                    counter.fetch_add(written as u64, Ordering::Relaxed);
                    self.needs_flush = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(writer_broke(error))),
                Poll::Pending => {
                    // The copy frees the memory of which the held bytes are a small part.
                    if self.held.len() <= self.memory / 4 {
                        self.held = Bytes::copy_from_slice(&self.held);
                        self.memory = self.held.len();
                    }
                    self.charge.note(ByteCount::from(self.memory));
                    return Poll::Pending;
                }
            }
        }
        // An empty slice would still keep all its memory.
        self.held = Bytes::new();
        self.charge.note(ByteCount::ZERO);
        Poll::Ready(Ok(()))
    }

    /// Returns how many bytes may be read within the budget, at least [`LEAST_READ`].
    fn room(&self) -> usize {
        let room = self.charge.room().as_u64();
        usize::try_from(room).unwrap_or(usize::MAX).max(LEAST_READ)
    }

    fn poll_flush<W: ByteStream>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<Result<(), Broken>> {
        if self.needs_flush {
            ready!(Pin::new(writer).poll_flush(cx)).map_err(writer_broke)?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }
}

fn writer_broke(error: io::Error) -> Broken {
    Broken::Writer(ResetCode::from_io(&error))
}

/// The most that a relay holds in one direction, and the size of its reads at full speed.
pub const MAX_HELD: usize = 128 * 1024;

const MIN_READ: usize = 16 * 1024;

/// Size of reads when the account is exhausted.
const LEAST_READ: usize = 2 * 1024;

/// Reads in one poll: at full buffers some megabytes, a few milliseconds.
const POLL_BUDGET: u32 = 32;
