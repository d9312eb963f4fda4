//! Facts about a client beyond its snapshot.

use hawser_session::recorder::Recorder;
use hawser_types::{Instant, SessionId};

use super::Client;
use super::shared::State;
use crate::session::SessionHandle;

impl Client {
    /// The name of the session that runs, as both ends' logs show it.
    pub fn session_id(&self) -> Option<SessionId> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(driver.id()),
            _ => None,
        }
    }

    /// The session that runs.
    pub fn session(&self) -> Option<SessionHandle> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(SessionHandle::new(driver.clone())),
            _ => None,
        }
    }

    /// The sessions that the client has moved on from, which live until the streams end that were
    /// open in them.
    pub fn left(&self) -> Vec<SessionHandle> {
        let current = self.session_id();
        let left = self.shared.left().into_iter();
        let left = left.filter(|driver| Some(driver.id()) != current);
        left.map(SessionHandle::new).collect()
    }

    /// Reads what the session that runs has recorded; `None` where none runs.
    pub fn recorder<R>(&self, read: impl FnOnce(&Recorder, Instant) -> R) -> Option<R> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(driver.recorder(read)),
            _ => None,
        }
    }

    /// The congestion control that the channels ask the kernel for; `None` for its default.
    pub fn congestion(&self) -> Option<&str> {
        self.shared.congestion.name()
    }
}
