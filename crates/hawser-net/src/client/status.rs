//! Facts about a client beyond its snapshot.

use hawser_session::recorder::Recorder;
use hawser_types::{Instant, SessionId};

use super::Client;
use super::shared::State;
use crate::session::SessionHandle;

impl Client {
    /// The id of the running session, as both ends' logs show it.
    pub fn session_id(&self) -> Option<SessionId> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(driver.id()),
            _ => None,
        }
    }

    /// The running session.
    pub fn session(&self) -> Option<SessionHandle> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(SessionHandle::new(driver.clone())),
            _ => None,
        }
    }

    /// The superseded sessions, which live until their open streams end.
    pub fn left(&self) -> Vec<SessionHandle> {
        let current = self.session_id();
        let left = self.shared.left().into_iter();
        let left = left.filter(|driver| Some(driver.id()) != current);
        left.map(SessionHandle::new).collect()
    }

    /// Reads the recorder of the running session; `None` if no session runs.
    pub fn recorder<R>(&self, read: impl FnOnce(&Recorder, Instant) -> R) -> Option<R> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(driver.recorder(read)),
            _ => None,
        }
    }

    /// The congestion control that the channels ask the kernel for; `None`: the kernel's default.
    pub fn congestion(&self) -> Option<&str> {
        self.shared.congestion.name()
    }
}
