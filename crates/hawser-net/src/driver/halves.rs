//! What ends a direction of a stream, or the session, early; and what is known of such ends.

use hawser_session::{CloseReason, StreamError};
use hawser_types::StreamId;

use super::inner::{Inner, Waiting, Wakers};
use super::{CLOSE_REFUSED, Driver};
use crate::session::ConnectionError;
use crate::stream::Failure;

/// Directions of one stream that the peer ended early, with its codes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndedByPeer {
    /// Both directions.
    pub(super) both: Option<u32>,
    /// The peer's own direction, which this side reads.
    pub(super) sending: Option<u32>,
    /// This side's direction, which the peer reads no more.
    pub(super) reading: Option<u32>,
}

impl EndedByPeer {
    /// The reason for which `waiting` will not come to anything.
    fn failure(self, waiting: Waiting) -> Option<Failure> {
        let half = match waiting {
            Waiting::Read => self.sending.map(Failure::Reset),
            Waiting::Write | Waiting::Acknowledged | Waiting::Stopped => {
                self.reading.map(Failure::Stopped)
            }
            Waiting::Accept | Waiting::Datagram => None,
        };
        self.both.map(Failure::Reset).or(half)
    }
}

impl Driver {
    /// Ends this side's direction of a stream at once.
    pub(crate) fn reset_sending(&self, id: StreamId, code: u32) {
        self.with(|session, now| session.reset_sending(now, id, code));
    }

    /// Reads no more of a stream.
    pub(crate) fn stop_reading(&self, id: StreamId, code: u32) {
        self.with(|session, now| session.stop_reading(now, id, code));
    }

    /// Ends the session in order, for a reason of the application's.
    pub(crate) fn close_because(&self, code: u32, text: &str) {
        self.with(|session, now| session.close_because(now, code, text));
    }

    /// Returns why the session refused something that was to be done with a stream just now.
    pub(crate) fn why_refused(
        &self,
        id: StreamId,
        waiting: Waiting,
        error: StreamError,
    ) -> Failure {
        let failure = self.shared.lock().failure(id, waiting, Some(error));
        failure.unwrap_or(Failure::Refused(error))
    }

    /// Returns the reason for which the session is over; `None` while it is not.
    pub(crate) fn end(&self) -> Option<ConnectionError> {
        self.shared.lock().end_reason()
    }
}

impl Inner {
    /// Returns the reason for which the session is over; `None` while it is not.
    pub(super) fn end_reason(&self) -> Option<ConnectionError> {
        let refused = self.refused || self.closed == Some(CloseReason::Peer(CLOSE_REFUSED));
        Some(match self.closed? {
            _ if refused => ConnectionError::Refused,
            CloseReason::Local => ConnectionError::LocallyClosed,
            CloseReason::Peer(code) => {
                let said = self.close_reason.clone();
                let (code, reason) = said.unwrap_or((code, String::new()));
                ConnectionError::ClosedByPeer { code, reason }
            }
            _ => ConnectionError::Lost,
        })
    }

    /// Returns the reason for which a stream that had to wait, or refused something, fails.
    pub(super) fn failure(
        &self,
        id: StreamId,
        waiting: Waiting,
        refused: Option<StreamError>,
    ) -> Option<Failure> {
        let ended = self.streams.get(&id).map(|wakers| wakers.ended);
        if let Some(failure) = ended.and_then(|ended| ended.failure(waiting)) {
            return Some(failure);
        }
        match (refused, self.end_reason()) {
            (Some(StreamError::SessionClosed), Some(end)) => Some(Failure::Over(end)),
            (Some(error), _) => Some(Failure::Refused(error)),
            (None, end) => end.map(Failure::Ended),
        }
    }

    /// The peer ended one direction of a stream.
    pub(super) fn on_half_ended(&mut self, id: StreamId, told: [Option<u32>; 2]) {
        let Some(wakers) = self.streams.get_mut(&id) else {
            return;
        };
        let [sending, reading] = told;
        wakers.ended.sending = sending.or(wakers.ended.sending);
        wakers.ended.reading = reading.or(wakers.ended.reading);
        wakers.wake_all(&mut self.woken);
    }
}

impl Wakers {
    /// Returns the failure that replaces an answer of the session: a stream of which the peer
    /// stopped or reset a direction looks acknowledged there.
    pub(super) fn overrules(&self, waiting: Waiting) -> Option<Failure> {
        match waiting {
            Waiting::Acknowledged | Waiting::Stopped => self.ended.failure(waiting),
            _ => None,
        }
    }
}
