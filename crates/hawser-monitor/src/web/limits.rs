//! Limits of the web server.

use std::time::Duration;

/// Limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Simultaneous connections. One more ends the oldest that has not presented the token yet; if
    /// all have, it is refused.
    pub connections: usize,
    /// Simultaneous feeds; one more is refused.
    pub feeds: usize,
    /// Time for the head of a request, from the connection or from the previous answer; time for a
    /// body; and time for a reader to take any of the data that waits for it.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            feeds: 16,
            patience: Duration::from_secs(15),
        }
    }
}
