//! The daemon, from the terminal's point of view.

use hawser_control::{Request, Response};

/// Sends requests to the daemon.
pub trait Ask {
    /// Sends a request and waits for the answer, for a bounded time.
    fn ask(&self, request: Request) -> impl Future<Output = Result<Response, NoAnswer>>;
}

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// No daemon runs.
    #[error("no daemon runs")]
    NoDaemon,
    /// The daemon got the request but did not answer.
    #[error("the daemon does not answer: {why}")]
    Failed {
        /// The error.
        why: String,
    },
}
