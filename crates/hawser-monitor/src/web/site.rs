//! The state that all requests share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Token;
use super::daemon::Daemon;
use super::feed::Hub;
use super::head::OwnNames;

/// The state that requests share.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    pub(super) names: OwnNames,
    pub(super) token: watch::Receiver<Token>,
    /// Random number as text, different for each run of the server.
    pub(super) run: String,
    pub(super) daemon: Arc<dyn Daemon>,
    pub(super) feeds: Arc<Hub>,
    /// Time for a request's body.
    pub(super) patience: Duration,
}
