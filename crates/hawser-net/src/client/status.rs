//! What a client tells about itself beyond its snapshot.

use hawser_types::SessionId;

use super::{Client, State};

impl Client {
    /// The name of the session that runs, as both ends' logs show it.
    pub fn session_id(&self) -> Option<SessionId> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => Some(driver.id()),
            _ => None,
        }
    }

    /// The congestion control that the channels ask the kernel for; `None` for its default.
    pub fn congestion(&self) -> Option<&str> {
        self.shared.congestion.name()
    }
}
