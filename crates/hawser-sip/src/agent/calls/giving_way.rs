//! Peers that refused a call as busy because they call this host themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::Instant;

/// Calls of this host that gave way to the peer's call, which has not arrived yet. It is in flight
/// or will be retransmitted.
#[derive(Debug, Default)]
pub(super) struct GivingWay(BTreeMap<String, Instant>);

impl GivingWay {
    /// Records that a peer refused a call because it calls this host.
    pub(super) fn start(&mut self, now: Instant, peer: String) {
        self.0.insert(peer, now + PATIENCE);
    }

    /// Removes a peer: its call arrived, or this host calls it again.
    pub(super) fn end(&mut self, peer: &str) {
        self.0.remove(peer);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Returns a peer whose call did not arrive in time.
    pub(super) fn poll_late(&mut self, now: Instant) -> Option<String> {
        let (peer, _) = self.0.iter().find(|(_, until)| **until <= now)?;
        let peer = peer.clone();
        self.0.remove(&peer);
        Some(peer)
    }
}

/// A lost request is retransmitted for the third time after 3.5 s. A connection waits for twice
/// this time.
const PATIENCE: Duration = Duration::from_secs(5);
