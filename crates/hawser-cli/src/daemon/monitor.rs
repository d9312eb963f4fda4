//! What monitors that run in the daemon see of it.

use std::net::SocketAddr;
use std::sync::Arc;

use hawser_control::{Request, Response};
use tokio::sync::watch;

use super::{Daemon, Shared};

impl Daemon {
    /// What a web server shows and steers.
    pub(crate) fn for_web(&self) -> Arc<dyn hawser_monitor::web::Daemon> {
        self.shared.clone()
    }

    /// The dashboard is served at this address. Once only.
    pub(crate) fn set_web(&self, web: SocketAddr) {
        let _ = self.shared.web.set(web);
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
