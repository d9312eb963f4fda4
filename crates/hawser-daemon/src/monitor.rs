//! The daemon's interface to monitors that run in its process.

use std::sync::Arc;

use hawser_control::{ErrorReason, Request, Response};
use tokio::sync::watch;

use super::Daemon;
use super::dashboard::Dashboard;
use super::state::State;
use crate::setup::explained;

impl Daemon {
    /// Returns the daemon's interface for the web server.
    pub(crate) fn for_web(&self) -> Arc<dyn hawser_monitor::web::Daemon> {
        self.state.clone()
    }

    /// Sets the dashboard that is served. Call once.
    pub(crate) fn set_web(&self, dashboard: Dashboard) {
        self.state.set_dashboard(dashboard);
    }
}

/// Makes the dashboard use the token in the state directory from now on.
pub(super) fn read_token(state: &State) -> Response {
    match state.dashboard().map(Dashboard::read_token) {
        None | Some(Ok(())) => Response::Done { saved: None },
        Some(Err(error)) => Response::Error {
            reason: ErrorReason::Failed,
            message: explained(&error),
        },
    }
}

impl hawser_monitor::web::Daemon for State {
    fn answer(&self, request: &Request) -> Response {
        State::answer(self, request)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        State::changes(self)
    }
}
