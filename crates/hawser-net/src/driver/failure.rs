//! Why operations on streams fail, and why a session is over.

use hawser_session::StreamError;

/// Reason why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This side closed the session, and the peer holds everything that was written.
    #[error("this side closed the connection")]
    LocallyClosed,
    /// The peer closed the session.
    #[error("the peer closed the connection with code {code}{}", shown(.reason))]
    ClosedByPeer {
        /// The peer's code; 0 when it gave none.
        code: u32,
        /// The peer's text; empty when it gave none.
        reason: String,
    },
    /// The peer does not admit this host, or no longer.
    #[error("the peer does not let this host in")]
    Refused,
    /// The session ended out of order: no link led to the peer for too long, the peer broke the
    /// protocol, or this side gave up data in flight.
    #[error("every link to the peer was lost")]
    Lost,
}

/// Reason why an operation on a stream fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer reset the stream, or its own direction of it.
    Reset(u32),
    /// The peer has stopped reading.
    Stopped(u32),
    /// The session ended while the operation waited.
    Ended(ConnectionError),
    /// The session had ended before the operation.
    Over(ConnectionError),
    /// The session refuses the operation.
    Refused(StreamError),
}

/// Returns the peer's text as it may be shown and logged: without control characters.
fn shown(reason: &str) -> String {
    if reason.is_empty() {
        String::new()
    } else {
        format!(": {}", reason.escape_debug())
    }
}
