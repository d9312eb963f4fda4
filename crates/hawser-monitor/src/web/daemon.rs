//! The daemon, as the web server sees it.

use hawser_control::{Request, Response};
use tokio::sync::watch;

/// The daemon that is shown and controlled.
pub trait Daemon: Send + Sync + 'static {
    /// Answers at once. To [`Request::Events`] too: how long that wants to wait is ignored.
    fn answer(&self, request: &Request) -> Response;

    /// A number that grows once a second, when links have been looked at, and with each new event.
    fn changes(&self) -> watch::Receiver<u64>;
}
