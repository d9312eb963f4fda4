//! Early ends of a stream's direction, or of the session.

use hawser_session::StreamError;
use hawser_types::StreamId;

use super::Driver;
use super::failure::{ConnectionError, Failure};
use super::streams::Waiting;

impl Driver {
    /// Ends this side's direction of a stream at once.
    pub(crate) fn reset_sending(&self, id: StreamId, code: u32) {
        self.with(|session, now| session.reset_sending(now, id, code));
    }

    /// Stops reading a stream.
    pub(crate) fn stop_reading(&self, id: StreamId, code: u32) {
        self.with(|session, now| session.stop_reading(now, id, code));
    }

    /// Ends the session in order, for a reason of the application.
    pub(crate) fn close_because(&self, code: u32, text: &str) {
        self.with(|session, now| session.close_because(now, code, text));
    }

    /// Returns why the session refused an operation on a stream just now.
    pub(crate) fn why_refused(
        &self,
        id: StreamId,
        waiting: Waiting,
        error: StreamError,
    ) -> Failure {
        let failure = self.shared.lock().failure(id, waiting, Some(error));
        failure.unwrap_or(Failure::Refused(error))
    }

    /// Returns why the session is over; `None` while it is open.
    pub(crate) fn end(&self) -> Option<ConnectionError> {
        self.shared.lock().end_reason()
    }
}
