use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hawser_types::StreamId;

use crate::driver::{Driver, Failure, Waiting};

/// The state that both halves of a stream share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) driver: Driver,
    pub(super) id: StreamId,
    /// The peer's metadata when it opened the stream; empty if this side opened it.
    pub(super) opening: Bytes,
    /// The peer opened the stream and was not answered yet.
    unanswered: AtomicBool,
    /// The halves have owners of their own: each ends its direction when it is dropped.
    split: AtomicBool,
}

impl Core {
    /// `opening`: the peer's metadata when it opened the stream; empty if this side opened it.
    pub(super) fn new(driver: Driver, id: StreamId, opening: Bytes) -> Self {
        Self {
            unanswered: AtomicBool::new(!driver.is_own(id)),
            split: AtomicBool::new(false),
            driver,
            id,
            opening,
        }
    }

    /// Notes that the peer has been answered.
    pub(super) fn answer(&self) {
        self.unanswered.store(false, Ordering::Relaxed);
    }

    /// Ends both directions at once; the peer receives `code`.
    pub(super) fn reset(&self, code: u32) {
        self.driver
            .with(|session, now| session.reset(now, self.id, code));
    }

    /// Sets whether a half that is dropped ends its direction by itself.
    pub(super) fn set_split(&self, split: bool) {
        self.split.store(split, Ordering::Relaxed);
    }

    /// True if a half that is dropped ends its direction by itself.
    pub(super) fn is_split(&self) -> bool {
        self.split.load(Ordering::Relaxed)
    }

    /// Lets bytes be read as they arrive from now on.
    pub(super) fn unordered(&self) -> Result<(), Failure> {
        self.driver
            .with(|session, _| session.set_unordered(self.id))
            .map_err(|error| self.driver.why_refused(self.id, Waiting::Read, error))
    }

    /// Ends the writing direction behind the written data.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.driver
            .with(|session, now| session.finish(now, self.id))
            .map_err(|error| self.driver.why_refused(self.id, Waiting::Write, error))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if *self.unanswered.get_mut() {
            // An orderly end would tell the peer that the stream was accepted.
            self.reset(hawser_session::CODE_LIMIT_REACHED);
        }
        self.driver.forget_stream(self.id);
    }
}
