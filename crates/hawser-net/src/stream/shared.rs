use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use hawser_types::StreamId;

use crate::driver::{Driver, Failure, Waiting};

/// What both halves of a stream share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) driver: Driver,
    pub(super) id: StreamId,
    /// What the peer said when it opened the stream; empty for one's own.
    pub(super) opening: Bytes,
    /// The peer opened the stream and has heard nothing yet.
    unanswered: AtomicBool,
    /// The halves have owners of their own: each ends its direction when it is dropped.
    split: AtomicBool,
}

impl Core {
    /// `opening`: what the peer said when it opened the stream; empty for one's own.
    pub(super) fn new(driver: Driver, id: StreamId, opening: Bytes) -> Self {
        Self {
            unanswered: AtomicBool::new(!driver.is_own(id)),
            split: AtomicBool::new(false),
            driver,
            id,
            opening,
        }
    }

    /// The peer hears something of the stream.
    pub(super) fn answer(&self) {
        self.unanswered.store(false, Ordering::Relaxed);
    }

    /// Ends both directions at once; the peer hears `code`.
    pub(super) fn reset(&self, code: u32) {
        self.driver
            .with(|session, now| session.reset(now, self.id, code));
    }

    /// Says whether a half that is dropped ends its direction by itself.
    pub(super) fn set_split(&self, split: bool) {
        self.split.store(split, Ordering::Relaxed);
    }

    /// True if a half that is dropped ends its direction by itself.
    pub(super) fn is_split(&self) -> bool {
        self.split.load(Ordering::Relaxed)
    }

    /// From now on bytes are read as they come.
    pub(super) fn unordered(&self) -> Result<(), Failure> {
        self.driver
            .with(|session, _| session.set_unordered(self.id))
            .map_err(|error| self.driver.why_refused(self.id, Waiting::Read, error))
    }

    /// Ends the writing direction behind what was written.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.driver
            .with(|session, now| session.finish(now, self.id))
            .map_err(|error| self.driver.why_refused(self.id, Waiting::Write, error))
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if *self.unanswered.get_mut() {
            // Letting it end in order would tell the peer that it was accepted.
            self.reset(hawser_session::CODE_LIMIT_REACHED);
        }
        self.driver.forget_stream(self.id);
    }
}
