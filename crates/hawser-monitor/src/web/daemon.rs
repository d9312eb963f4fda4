//! The daemon, from the web server's point of view.

use hawser_control::{Request, Response};
use tokio::sync::watch;

/// The daemon to show and control.
pub trait Daemon: Send + Sync + 'static {
    /// Answers at once, even [`Request::Events`], whose waiting time is ignored.
    fn answer(&self, request: &Request) -> Response;

    /// Returns a number that grows with each new event, and once a second after a check of links.
    fn changes(&self) -> watch::Receiver<u64>;
}
