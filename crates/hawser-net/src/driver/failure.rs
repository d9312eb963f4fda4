//! Why something can't be done with a stream, and why a session is over.

use hawser_session::StreamError;

/// The reason for which a session is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectionError {
    /// This side closed it, and the peer holds everything that was written.
    #[error("this side closed the connection")]
    LocallyClosed,
    /// The peer closed it.
    #[error("the peer closed the connection with code {code}{}", shown(.reason))]
    ClosedByPeer {
        /// The peer's code; 0 when it gave none.
        code: u32,
        /// The peer's text; empty when it gave none.
        reason: String,
    },
    /// The peer does not let this host in, or no more.
    #[error("the peer does not let this host in")]
    Refused,
    /// It ended out of order: no link led to the peer for too long, the peer broke the protocol,
    /// or this side gave up what was in flight.
    #[error("every link to the peer was lost")]
    Lost,
}

/// What the driver says of a stream with which something can't be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The peer reset the stream, or its direction of it.
    Reset(u32),
    /// The peer reads no more.
    Stopped(u32),
    /// The session ended while something waited.
    Ended(ConnectionError),
    /// The session had ended before.
    Over(ConnectionError),
    /// The session refuses.
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
