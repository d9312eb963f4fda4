//! What all ports answer by.

use std::net::SocketAddr;

use hawser_net::links::Link;
use hawser_net::names::Names;

use super::limits::Limits;

/// The names, the links that help, and what is in flight.
pub(super) struct Answering {
    pub(super) names: Names,
    pub(super) links: Box<dyn Fn() -> Vec<Link> + Send + Sync>,
    pub(super) limits: Limits,
}

impl Answering {
    /// The answer to `query`, which was meant for `server`.
    pub(super) async fn answer(&self, query: &[u8], server: SocketAddr) -> Option<Vec<u8>> {
        let answer = self.names.answer(query, server, &(self.links)()).await;
        answer
            .inspect_err(|error| tracing::debug!(%server, %error, "a program gets no answer"))
            .ok()
    }
}
