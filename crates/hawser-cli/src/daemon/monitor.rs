//! The daemon's interface to monitors that run in it.

use std::sync::Arc;

use hawser_control::{ErrorReason, Request, Response};
use tokio::sync::watch;

use super::Daemon;
use super::dashboard::Dashboard;
use super::state::State;
use crate::setup::explained;

impl Daemon {
    /// Returns the daemon as a web server sees it.
    pub(crate) fn for_web(&self) -> Arc<dyn hawser_monitor::web::Daemon> {
        self.state.clone()
    }

    /// The dashboard is served. Once only.
    pub(crate) fn set_web(&self, dashboard: Dashboard) {
        self.state.set_dashboard(dashboard);
    }
}

/// From now on the dashboard's token is the one in the state directory.
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
