//! Bounds of the web server.

use std::time::Duration;

/// Limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. One more ends the oldest that has not shown the token yet; where all
    /// have, it is refused.
    pub connections: usize,
    /// Feeds at once; one more is refused.
    pub feeds: usize,
    /// Time for the head of a request, from the connection or from the answer before; time for a
    /// body; and time for a reader to take anything of what waits for it.
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
