//! Relays bytes between two streams: whatever one side does to its stream, the other side sees.
//!
//! | near or far side | the other side sees |
//! |---|---|
//! | ends its half in order | the end of that half, after all its data |
//! | aborts | a reset, after all data that was read |
//! | can no longer be written to | a reset, after all data that it sent |
//!
//! A waiting relay holds no buffer: it reads into memory of the thread, and gives the bytes to the
//! writer, which may keep them. Only if a stream's reader is slower than its writer, the relay
//! keeps the unwritten bytes, at most [`MAX_HELD`] in each direction. They are charged to the
//! client that asked for the relay.

mod direction;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_types::{Budget, ByteCount};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::transport::{ByteStream, ResetCode};

pub use direction::MAX_HELD;
use direction::{Broken, Direction};

/// Relays until both halves have ended in order or one side failed; then drops both streams.
///
/// `near` is the side that asked for the connection. If the future is dropped before it is done,
/// both streams are reset, so that neither peer takes the cut for an orderly end.
pub async fn relay<N: ByteStream, F: ByteStream>(
    near: Side<N>,
    far: Side<F>,
    options: &RelayOptions,
    counters: &RelayCounters,
) -> RelayReport {
    // The client is a program of this machine, so no account is charged.
    relay_within(&Budget::unbounded(), near, far, options, counters).await
}

/// Relays as [`relay`] does, and charges unwritten bytes to `account`. If the account is exhausted,
/// the relay reads little at a time.
pub async fn relay_within<N: ByteStream, F: ByteStream>(
    account: &Budget,
    near: Side<N>,
    far: Side<F>,
    options: &RelayOptions,
    counters: &RelayCounters,
) -> RelayReport {
    let mut relay = Relay {
        near: near.stream,
        far: far.stream,
        up: Direction::new(near.early, account.empty_charge()),
        down: Direction::new(far.early, account.empty_charge()),
        failure: None,
        watch: Watch::new(false),
        finished: false,
    };
    let end = poll_fn(|cx| relay.poll(cx, options, counters)).await;
    match end {
        RelayEnd::Closed => {}
        RelayEnd::ResetByNear(code) => {
            deliver(&mut relay.far).await;
            relay.reset(code);
        }
        RelayEnd::ResetByFar(code) => {
            deliver(&mut relay.near).await;
            relay.reset(code);
        }
        RelayEnd::Idle => relay.reset(ResetCode::IdleTimeout),
    }
    relay.finished = true;
    RelayReport {
        up: relay.up.moved(),
        down: relay.down.moved(),
        end,
    }
}

/// One end of a relay.
#[derive(Debug)]
pub struct Side<S> {
    /// The stream.
    pub stream: S,
    /// Bytes that were already read from the stream and not yet sent to the other side.
    pub early: Vec<u8>,
}

impl<S> From<S> for Side<S> {
    fn from(stream: S) -> Self {
        let early = Vec::new();
        Self { stream, early }
    }
}

/// How long a relay may be idle. It ends after once to twice that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayOptions {
    /// Limit while both halves are open. `None`: no limit, since an idle connection is no fault.
    pub idle_timeout: Option<Duration>,
    /// Limit after one half has ended. `None`: no limit.
    pub half_closed_timeout: Option<Duration>,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self {
            idle_timeout: None,
            half_closed_timeout: Some(DEFAULT_HALF_CLOSED_TIMEOUT),
        }
    }
}

/// Bytes moved by many relays, kept up to date while they run.
#[derive(Debug, Default)]
pub struct RelayCounters {
    up: AtomicU64,
    down: AtomicU64,
}

impl RelayCounters {
    /// Bytes from near sides to far sides.
    pub fn up(&self) -> ByteCount {
        ByteCount::new(self.up.load(Ordering::Relaxed))
    }

    /// Bytes from far sides to near sides.
    pub fn down(&self) -> ByteCount {
        ByteCount::new(self.down.load(Ordering::Relaxed))
    }

    pub(crate) fn add_up(&self, bytes: usize) {
        self.up.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_down(&self, bytes: usize) {
        self.down.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Report of a finished relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayReport {
    /// Bytes from the near side to the far side.
    pub up: ByteCount,
    /// Bytes from the far side to the near side.
    pub down: ByteCount,
    /// How it ended.
    pub end: RelayEnd,
}

/// How a relay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEnd {
    /// Both halves ended in order.
    Closed,
    /// The near side aborted; the far side was reset.
    ResetByNear(ResetCode),
    /// The far side aborted; the near side was reset.
    ResetByFar(ResetCode),
    /// Nothing moved for too long; both sides were reset.
    Idle,
}

struct Relay<N: ByteStream, F: ByteStream> {
    near: N,
    far: F,
    up: Direction,
    down: Direction,
    /// How the relay will end as soon as the data of the failed side is delivered.
    failure: Option<RelayEnd>,
    watch: Watch,
    finished: bool,
}

impl<N: ByteStream, F: ByteStream> Relay<N, F> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        options: &RelayOptions,
        counters: &RelayCounters,
    ) -> Poll<RelayEnd> {
        let shut = self.failure.is_none();
        let up = self
            .up
            .poll(cx, &mut self.near, &mut self.far, &counters.up, shut);
        match up {
            Poll::Ready(Err(Broken::Reader(code))) => {
                return Poll::Ready(self.failure.unwrap_or(RelayEnd::ResetByNear(code)));
            }
            Poll::Ready(Err(Broken::Writer(code))) => {
                if let Some(end) = self.fail(RelayEnd::ResetByFar(code)) {
                    return Poll::Ready(end);
                }
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        let shut = self.failure.is_none();
        let down = self
            .down
            .poll(cx, &mut self.far, &mut self.near, &counters.down, shut);
        match down {
            Poll::Ready(Err(Broken::Reader(code))) => {
                return Poll::Ready(self.failure.unwrap_or(RelayEnd::ResetByFar(code)));
            }
            Poll::Ready(Err(Broken::Writer(code))) => {
                if let Some(end) = self.fail(RelayEnd::ResetByNear(code)) {
                    return Poll::Ready(end);
                }
            }
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        match (self.failure, self.up.is_done(), self.down.is_done()) {
            (None, true, true) => return Poll::Ready(RelayEnd::Closed),
            // Data of the failed side is still delivered; data of the other side is lost.
            (Some(end @ RelayEnd::ResetByFar(_)), _, true) => return Poll::Ready(end),
            (Some(end @ RelayEnd::ResetByNear(_)), true, _) => return Poll::Ready(end),
            _ => {}
        }
        self.poll_watch(cx, options)
    }

    /// Notes that one side takes no more data; it may still send some. Returns the end of the relay
    /// if the other side had failed before.
    fn fail(&mut self, end: RelayEnd) -> Option<RelayEnd> {
        if self.failure.is_some() {
            return self.failure;
        }
        self.failure = Some(end);
        match end {
            RelayEnd::ResetByFar(_) => self.up.give_up(),
            _ => self.down.give_up(),
        }
        self.watch = Watch::new(false);
        None
    }

    /// Polls, periodically and only if needed, for events that no read or write shows.
    fn poll_watch(&mut self, cx: &mut Context<'_>, options: &RelayOptions) -> Poll<RelayEnd> {
        let half_closed = self.up.has_ended() || self.down.has_ended();
        let (period, limit) = match (self.failure, half_closed) {
            (Some(_), _) => (FAILURE_DRAIN, Some(FAILURE_DRAIN)),
            (None, true) => (ABORT_CHECK, options.half_closed_timeout),
            (None, false) => match options.idle_timeout {
                Some(limit) => (limit, Some(limit)),
                None => return Poll::Pending,
            },
        };
        let moved = self.up.moved() + self.down.moved();
        if self.watch.half_closed != half_closed && self.failure.is_none() {
            self.watch = Watch::new(half_closed);
        }
        while self.watch.poll_tick(cx, period).is_ready() {
            if let Some(end) = self.aborted_after_end() {
                return Poll::Ready(end);
            }
            let stalled = self.watch.stalled_for(moved);
            match self.failure {
                Some(end) if stalled >= FAILURE_DRAIN => return Poll::Ready(end),
                None if limit.is_some_and(|limit| stalled >= limit) => {
                    return Poll::Ready(RelayEnd::Idle);
                }
                _ => {}
            }
        }
        Poll::Pending
    }

    /// Returns the abort of a side whose half has ended: no read shows it.
    fn aborted_after_end(&self) -> Option<RelayEnd> {
        if self.failure.is_some() {
            return None;
        }
        let near = self.up.has_ended().then(|| self.near.aborted()).flatten();
        let far = self.down.has_ended().then(|| self.far.aborted()).flatten();
        near.map(RelayEnd::ResetByNear)
            .or(far.map(RelayEnd::ResetByFar))
    }

    fn reset(&mut self, code: ResetCode) {
        self.near.reset(code);
        self.far.reset(code);
    }
}

impl<N: ByteStream, F: ByteStream> Drop for Relay<N, F> {
    fn drop(&mut self) {
        if !self.finished {
            self.reset(ResetCode::ShuttingDown);
        }
    }
}

/// A timer that exists only while it is needed, and the time of the last progress.
struct Watch {
    timer: Option<Pin<Box<Sleep>>>,
    moved: ByteCount,
    since: Instant,
    half_closed: bool,
}

impl Watch {
    fn new(half_closed: bool) -> Self {
        Self {
            half_closed,
            timer: None,
            moved: ByteCount::ZERO,
            since: Instant::now(),
        }
    }

    fn poll_tick(&mut self, cx: &mut Context<'_>, period: Duration) -> Poll<()> {
        let next = Instant::now() + period;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(next)));
        let tick = timer.as_mut().poll(cx);
        if tick.is_ready() {
            timer.as_mut().reset(next);
        }
        tick
    }

    fn stalled_for(&mut self, moved: ByteCount) -> Duration {
        if self.moved != moved {
            self.moved = moved;
            self.since = Instant::now();
        }
        self.since.elapsed()
    }
}

/// Waits, within bounds, until a reset of `stream` would no longer destroy what was written to it.
async fn deliver<S: ByteStream>(stream: &mut S) {
    let give_up = Instant::now() + DELIVERY_TIMEOUT;
    let mut pause = Duration::from_millis(1);
    while stream.undelivered() > ByteCount::ZERO && Instant::now() < give_up {
        sleep(pause).await;
        pause = (pause * 2).min(MAX_DELIVERY_PAUSE);
    }
}

/// How long a half-closed connection may be idle. Long polls over a half-closed connection are
/// rare; a machine that vanished in this state is not.
pub const DEFAULT_HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(10 * 60);

const ABORT_CHECK: Duration = Duration::from_millis(500);
const FAILURE_DRAIN: Duration = Duration::from_secs(5);
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_DELIVERY_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
