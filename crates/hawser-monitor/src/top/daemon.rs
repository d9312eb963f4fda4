//! The daemon, as the terminal sees it.

use hawser_control::{Request, Response};

/// A way to ask the daemon.
pub trait Ask {
    /// Asks, and waits for the answer, for a bounded time.
    fn ask(&self, request: Request) -> impl Future<Output = Result<Response, NoAnswer>>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// There is nobody to ask.
    #[error("no daemon runs")]
    NoDaemon,
    /// Somebody was asked, in vain.
    #[error("the daemon does not answer: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
}
