//! State that the tasks of a session share: its lock, its keys and its configuration.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hawser_session::seal::SessionKeys;
use hawser_session::{CloseReason, Session, SessionConfig, Side, StreamError};
use hawser_types::{ChannelId, Instant, SessionId, StreamId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::watch;
use tracing::Span;
use tracing::span::Entered;

use super::failure::Failure;
use super::inner::Inner;
use super::streams::Waiting;
use crate::clock;
use crate::congestion::Congestion;
use crate::lock_order::SessionLocked;
use crate::session_budgets::SessionBudgets;
use crate::spans;

pub(super) struct SharedSession {
    inner: Mutex<Inner>,
    pub(super) keys: SessionKeys,
    pub(super) id: SessionId,
    /// The span of the session's log lines.
    pub(super) span: Span,
    pub(super) congestion: Congestion,
    /// Budgets for the memory that channels read into, and for their charges.
    pub(super) budgets: SessionBudgets,
    pub(super) config: SessionConfig,
    pub(super) side: Side,
    /// Wakes the timer's task when it has to look sooner.
    pub(super) timer: Arc<Notify>,
    changed: watch::Sender<u64>,
}

/// The session's state, locked.
pub(super) struct Locked<'a> {
    inner: MutexGuard<'a, Inner>,
    _order: SessionLocked,
    _span: Option<Entered<'a>>,
}

impl SharedSession {
    /// A session that has no channel yet.
    pub(super) fn new(
        span: Span,
        (side, config): (Side, SessionConfig),
        keys: SessionKeys,
        congestion: Congestion,
        budgets: SessionBudgets,
    ) -> Self {
        let session = Session::new(clock::now(), side, config.clone());
        Self {
            inner: Mutex::new(Inner::new(side, session, span.clone())),
            id: keys.session_id(),
            span,
            keys,
            congestion,
            budgets,
            config,
            side,
            timer: Arc::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// Changes whenever [`SharedSession::tell_change`] is called.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Wakes the watchers of the session as a whole.
    pub(super) fn tell_change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        // No poison: a panic elsewhere must not take this session's other streams with it.
        let inner = self.inner.lock();
        let _order = SessionLocked::new();
        Locked {
            inner,
            _order,
            _span: spans::for_steps(&self.span),
        }
    }

    /// Works under the lock, distributes the session's events, and wakes the tasks that they
    /// concern once the lock is released.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Inner, Instant) -> R) -> R {
        let now = clock::now();
        let mut inner = self.lock();
        let result = work(&mut inner, now);
        let changed = inner.drain();
        let sooner = inner
            .session
            .poll_timeout()
            .filter(|at| inner.timer_at.is_none_or(|planned| *at < planned));
        if sooner.is_some() {
            inner.timer_at = sooner;
        }
        let woken = std::mem::take(&mut inner.woken);
        let notified = std::mem::take(&mut inner.notified);
        let gone = std::mem::take(&mut inner.gone);
        drop(inner);
        drop(gone);
        if sooner.is_some() {
            self.timer.notify_one();
        }
        notified.iter().for_each(|notify| notify.notify_one());
        woken.into_iter().for_each(Waker::wake);
        if changed {
            self.tell_change();
        }
        result
    }

    /// Tries an operation on a stream; if it is not possible yet, remembers the task to wake.
    pub(super) fn poll_stream<R>(
        &self,
        cx: &mut Context<'_>,
        id: StreamId,
        waiting: Waiting,
        attempt: impl FnOnce(&mut Session, Instant) -> Result<Option<R>, StreamError>,
    ) -> Poll<Result<R, Failure>> {
        self.with(|inner, now| {
            if let Some(failure) = inner.streams.overrules(id, waiting) {
                return Poll::Ready(Err(failure));
            }
            let refused = match attempt(&mut inner.session, now) {
                Ok(None) => None,
                Ok(Some(done)) => return Poll::Ready(Ok(done)),
                Err(error) => Some(error),
            };
            if let Some(failure) = inner.failure(id, waiting, refused) {
                return Poll::Ready(Err(failure));
            }
            if inner.streams.wait(id, waiting, cx.waker()) {
                Poll::Pending
            } else {
                Poll::Ready(Err(Failure::Refused(StreamError::Unknown(id))))
            }
        })
    }

    /// Handles the end of a channel's connection: its work goes to other channels.
    pub(super) fn lose_channel(&self, id: ChannelId) {
        self.with(|inner, now| {
            inner.session.handle_channel_lost(now, id);
            inner.remove_channel(id);
        });
        self.tell_change();
    }

    /// Ends the session of a peer that has broken the protocol.
    pub(super) fn fail(&self, fault: &dyn std::fmt::Display) {
        let _span = self.span.enter();
        tracing::warn!(session = %self.id, %fault, "the session ends: the peer is at fault");
        self.abort();
    }

    pub(super) fn abort(&self) {
        self.with(|inner, _| inner.end(CloseReason::Abandoned));
        self.tell_change();
    }
}

impl Deref for Locked<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Inner {
        &mut self.inner
    }
}

impl Drop for SharedSession {
    fn drop(&mut self) {
        // The task of the timer looks, and finds the session gone.
        self.timer.notify_one();
    }
}
