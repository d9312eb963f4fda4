//! What monitors that run in the daemon see of it.

use std::sync::Arc;

use hawser_control::{ErrorReason, Request, Response};
use tokio::sync::watch;

use super::{Daemon, Shared};
use crate::daemon::web::Served;
use crate::setup::explained;

impl Daemon {
    /// What a web server shows and steers.
    pub(crate) fn for_web(&self) -> Arc<dyn hawser_monitor::web::Daemon> {
        self.shared.clone()
    }

    /// The dashboard is served. Once only.
    pub(crate) fn set_web(&self, web: Served) {
        let _ = self.shared.web.set(web);
    }
}

/// From now on the dashboard's token is the one in the state directory.
pub(super) fn read_token(shared: &Shared) -> Response {
    match shared.web.get().map(Served::read_token) {
        None | Some(Ok(())) => Response::Done { saved: None },
        Some(Err(error)) => Response::Error {
            reason: ErrorReason::Failed,
            message: explained(&error),
        },
    }
}

impl hawser_monitor::web::Daemon for Shared {
    fn answer(&self, request: &Request) -> Response {
        Shared::answer(self, request)
    }

    fn changes(&self) -> watch::Receiver<u64> {
        Shared::changes(self)
    }
}
