//! Bounds of the web server.

use std::time::Duration;

/// How much of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. One more ends the oldest that has not shown the token yet; where all
    /// have, it is refused.
    pub connections: usize,
    /// Feeds at once; one more is refused.
    pub feeds: usize,
    /// For the head of a request, from the moment of connecting or of the answer before; for a
    /// body; and for a reader to take anything of what waits for it.
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
