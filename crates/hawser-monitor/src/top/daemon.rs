//! The daemon, as the terminal sees it.

use hawser_control::{Request, Response};

/// A way to ask the daemon.
pub trait Ask {
    /// Asks, and waits for the answer, for a bounded time.
    fn ask(&self, request: Request) -> impl Future<Output = Result<Response, NoAnswer>>;
}

/// Reason why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// No daemon runs.
    #[error("no daemon runs")]
    NoDaemon,
    /// The daemon was asked and gave no answer.
    #[error("the daemon does not answer: {why}")]
    Failed {
        /// The error.
        why: String,
    },
}
