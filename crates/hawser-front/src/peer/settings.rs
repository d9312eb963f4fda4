use std::time::Duration;

/// Settings of the search for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// The reserved port, on which peers listen.
    pub port: u16,
    /// Time for which the result of a probe that found a peer is kept.
    pub keep_found: Duration,
    /// Time for which an address without a peer is not probed again.
    pub keep_missing: Duration,
    /// Time that a probe may take in all.
    pub patience: Duration,
    /// Least time between the beginnings of two probes.
    pub pause: Duration,
}

impl PeerSettings {
    /// Returns the usual settings, for peers that listen on `port`.
    pub const fn at_port(port: u16) -> Self {
        Self {
            port,
            keep_found: Duration::from_secs(600),
            keep_missing: Duration::from_secs(60),
            patience: Duration::from_secs(5),
            pause: Duration::from_millis(200),
        }
    }
}
