//! The thread that owns an unfinished file: it writes, hashes, and maintains the journal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::byte_range::ByteRange;
use super::content::{BlockGrid, BlockHash, FileHash, HASH_BUFFER_BYTES, hash_block};
use super::error::ReceiveError;
use super::store::Part;

/// Sends jobs to the writer's thread from async code; its queue is bounded in bytes.
///
/// When it is dropped, the thread writes the queued bytes, makes them durable, and ends.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    budget: Arc<Semaphore>,
    verified: Arc<AtomicU64>,
    /// `None` once its end was observed.
    thread: Option<JoinHandle<Result<(), ReceiveError>>>,
}

/// How often received bytes are made durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Checkpoint after this many new bytes …
    pub(super) bytes: u64,
    /// … or this long after the last checkpoint, if there are any new bytes.
    pub(super) interval: Duration,
}

/// Result of comparing the file with its checksum.
#[derive(Debug)]
pub(super) enum Checked {
    /// The file matched and has its final name now.
    Stored(FileHash),
    /// These ranges do not match and are no longer counted as stored.
    Wrong(Vec<ByteRange>),
}

impl Writer {
    /// Starts the thread. `claim` is kept until the thread has ended.
    pub(super) fn start(part: Part, pace: Pace, claim: impl Send + 'static) -> Self {
        let (jobs, queue) = mpsc::channel();
        let budget = Arc::new(Semaphore::new(QUEUE_BYTES as usize));
        let verified = Arc::new(AtomicU64::new(0));
        let grid = BlockGrid::for_size(part.size());
        let worker = Worker {
            part,
            grid,
            hashes: vec![None; grid.count()],
            buffer: vec![0; HASH_BUFFER_BYTES],
            checkpoints: Checkpoints::new(pace),
            verified: Arc::clone(&verified),
        };
        let closing = CloseOnDrop(Arc::clone(&budget));
        // On the blocking pool, so that a runtime that shuts down waits for the last checkpoint.
        let thread = tokio::task::spawn_blocking(move || {
            let (_closing, _claim) = (closing, claim);
            worker.run(&queue)
        });
        Self {
            jobs,
            budget,
            verified,
            thread: Some(thread),
        }
    }

    /// Queues bytes, waiting for room. `false`: the thread has ended, see [`Writer::failure`].
    pub(super) async fn write(&self, offset: u64, bytes: Bytes) -> bool {
        let charge = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let charge = charge.clamp(MIN_CHARGE_BYTES, QUEUE_BYTES);
        let budget = Arc::clone(&self.budget);
        let Ok(permit) = budget.acquire_many_owned(charge).await else {
            return false;
        };
        let job = Job::Write {
            offset,
            bytes,
            _permit: permit,
        };
        self.jobs.send(job).is_ok()
    }

    /// Compares the file with the hashes of its blocks; gives it its name if all match.
    ///
    /// `None`: the thread has ended; [`Writer::failure`] returns the reason.
    pub(super) async fn check(&self, expected: Vec<BlockHash>) -> Option<Checked> {
        let (reply, checked) = oneshot::channel();
        self.jobs.send(Job::Check { expected, reply }).ok()?;
        checked.await.ok()
    }

    /// Bytes of the file that are hashed, for showing progress of [`Writer::check`].
    pub(super) fn verified(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    /// Queues the removal of the unfinished file.
    pub(super) fn discard(&self) {
        let _ = self.jobs.send(Job::Discard);
    }

    /// Waits for the thread to end by itself, which it does only after a failure.
    pub(super) async fn failure(&mut self) -> ReceiveError {
        let Some(thread) = &mut self.thread else {
            return ReceiveError::Stream(io::ErrorKind::Interrupted.into());
        };
        let ended = thread.await;
        self.thread = None;
        match ended {
            Ok(Err(error)) => error,
            // The thread was cancelled with its runtime, or ended although its queue is open.
            Ok(Ok(())) | Err(_) => ReceiveError::Stream(io::ErrorKind::Interrupted.into()),
        }
    }

    /// Lets the thread finish the queued jobs and waits for its end.
    pub(super) async fn close(self) -> Result<(), ReceiveError> {
        let Self { jobs, thread, .. } = self;
        drop(jobs);
        let Some(thread) = thread else { return Ok(()) };
        thread
            .await
            .unwrap_or_else(|_| Err(ReceiveError::Stream(io::ErrorKind::Interrupted.into())))
    }
}

enum Job {
    Write {
        offset: u64,
        bytes: Bytes,
        _permit: OwnedSemaphorePermit,
    },
    Check {
        expected: Vec<BlockHash>,
        reply: oneshot::Sender<Checked>,
    },
    Discard,
}

/// Wakes the tasks that wait for room when the writer has ended.
struct CloseOnDrop(Arc<Semaphore>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

struct Worker {
    part: Part,
    grid: BlockGrid,
    hashes: Vec<Option<BlockHash>>,
    buffer: Vec<u8>,
    checkpoints: Checkpoints,
    verified: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self, queue: &mpsc::Receiver<Job>) -> Result<(), ReceiveError> {
        let result = self.work(queue);
        // Whatever the cause of the end, stored bytes must count in the next attempt.
        let kept = self.checkpoints.finish(&self.part);
        result.and(kept)
    }

    fn work(&mut self, queue: &mpsc::Receiver<Job>) -> Result<(), ReceiveError> {
        loop {
            match queue.recv_timeout(self.checkpoints.pace.interval) {
                Ok(Job::Write { offset, bytes, .. }) => self.write(offset, &bytes)?,
                Ok(Job::Check { expected, reply }) => {
                    let checked = self.check(&expected)?;
                    // Even if the transfer no longer waits, the file is stored.
                    let _ = reply.send(checked);
                }
                Ok(Job::Discard) => {
                    self.checkpoints.abandon();
                    self.part.discard()?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.checkpoints.run_if_due(&self.part)?;
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), ReceiveError> {
        let added = self.part.write(offset, bytes)?;
        self.checkpoints.on_write(added);
        let Some(range) = ByteRange::with_length(offset, bytes.len() as u64) else {
            return Ok(());
        };
        for index in self.grid.touched(range) {
            let complete = self
                .grid
                .range(index)
                .is_some_and(|block| self.part.held().covers(&block.into()));
            if let Some(slot) = self.hashes.get_mut(index) {
                *slot = None;
            }
            // Now its bytes are in the page cache. Repeated bytes wait for the check.
            if complete && added > 0 {
                self.hash(index)?;
            }
        }
        Ok(())
    }

    fn hash(&mut self, index: usize) -> Result<BlockHash, ReceiveError> {
        let hash = hash_block(self.part.file(), self.grid, index, &mut self.buffer)
            .map_err(|error| self.part.failed("read", error))?;
        if let Some(slot) = self.hashes.get_mut(index) {
            *slot = Some(hash);
        }
        Ok(hash)
    }

    fn check(&mut self, expected: &[BlockHash]) -> Result<Checked, ReceiveError> {
        let mut actual = Vec::with_capacity(expected.len());
        let mut wrong = Vec::new();
        self.verified.store(0, Ordering::Relaxed);
        for index in 0..self.grid.count() {
            let hash = match self.hashes.get(index) {
                Some(Some(known)) => *known,
                _ => self.hash(index)?,
            };
            let length = self.grid.range(index).map_or(0, ByteRange::length);
            self.verified.fetch_add(length, Ordering::Relaxed);
            actual.push(hash);
            if expected.get(index) != Some(&hash) {
                wrong.extend(self.grid.range(index));
            }
        }
        match self.grid.root(&actual) {
            Some(root) if actual == expected => {
                self.commit()?;
                Ok(Checked::Stored(root))
            }
            _ => {
                self.give_up(&wrong)?;
                Ok(Checked::Wrong(wrong))
            }
        }
    }

    fn commit(&mut self) -> Result<(), ReceiveError> {
        self.checkpoints.join(&self.part)?;
        let committed = self.part.commit();
        // If only the name is taken, the bytes are still good and stay in the journal.
        if !matches!(committed, Err(ReceiveError::Exists { .. })) {
            self.checkpoints.abandon();
        }
        committed
    }

    /// Removes wrong bytes from the journal at once: a crash must not bring them back.
    fn give_up(&mut self, wrong: &[ByteRange]) -> Result<(), ReceiveError> {
        for &range in wrong {
            self.part.forget(range);
            for index in self.grid.touched(range) {
                if let Some(slot) = self.hashes.get_mut(index) {
                    *slot = None;
                }
            }
        }
        self.checkpoints.on_write(1);
        self.checkpoints.finish(&self.part)
    }
}

/// Makes the file's state durable periodically, in parallel with the writing.
struct Checkpoints {
    pace: Pace,
    running: Option<thread::JoinHandle<io::Result<()>>>,
    unsafe_bytes: u64,
    last: Instant,
    /// After a failed sync, lost pages may count as clean: write no journal any more.
    is_over: bool,
}

impl Checkpoints {
    fn new(pace: Pace) -> Self {
        Self {
            pace,
            running: None,
            unsafe_bytes: 0,
            last: Instant::now(),
            is_over: false,
        }
    }

    fn on_write(&mut self, bytes: u64) {
        self.unsafe_bytes += bytes;
    }

    fn run_if_due(&mut self, part: &Part) -> Result<(), ReceiveError> {
        if self.running.as_ref().is_some_and(|run| !run.is_finished()) {
            return Ok(());
        }
        self.join(part)?;
        let is_due = self.unsafe_bytes >= self.pace.bytes
            || (self.unsafe_bytes > 0 && self.last.elapsed() >= self.pace.interval);
        if self.is_over || !is_due {
            return Ok(());
        }
        let checkpoint = part.checkpoint();
        self.unsafe_bytes = 0;
        self.last = Instant::now();
        let spawned = thread::Builder::new()
            .name("hawser-sync".to_owned())
            .spawn(move || checkpoint.run());
        match spawned {
            Ok(run) => self.running = Some(run),
            // Without another thread, the checkpoint runs here.
            Err(_) => self.run_here(part)?,
        }
        Ok(())
    }

    /// Waits for a running checkpoint and makes the rest durable.
    fn finish(&mut self, part: &Part) -> Result<(), ReceiveError> {
        self.join(part)?;
        if self.is_over || self.unsafe_bytes == 0 {
            return Ok(());
        }
        self.unsafe_bytes = 0;
        self.run_here(part)
    }

    /// Waits for a running checkpoint; the journal is not written any more.
    fn abandon(&mut self) {
        self.is_over = true;
        if let Some(run) = self.running.take() {
            let _ = run.join();
        }
    }

    fn run_here(&mut self, part: &Part) -> Result<(), ReceiveError> {
        let result = part.checkpoint().run();
        self.judge(part, result)
    }

    fn join(&mut self, part: &Part) -> Result<(), ReceiveError> {
        let Some(run) = self.running.take() else {
            return Ok(());
        };
        let result = run
            .join()
            .unwrap_or_else(|_| Err(io::ErrorKind::Interrupted.into()));
        self.judge(part, result)
    }

    fn judge(&mut self, part: &Part, result: io::Result<()>) -> Result<(), ReceiveError> {
        result.map_err(|error| {
            self.is_over = true;
            part.failed("sync", error).into()
        })
    }
}

/// Bytes that may wait to be written, for each file.
const QUEUE_BYTES: u32 = 8 << 20;
/// Minimum charge of a chunk, so that many small ones are bounded, too.
const MIN_CHARGE_BYTES: u32 = 512;
