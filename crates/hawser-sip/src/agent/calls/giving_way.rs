//! Hosts that refuse a call since they call this one themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::Instant;

/// Calls of this host that have given way to the other host's, which has not come yet. The other
/// call is in flight or will be retransmitted.
#[derive(Debug, Default)]
pub(super) struct GivingWay(BTreeMap<String, Instant>);

impl GivingWay {
    /// A host has refused for that reason.
    pub(super) fn start(&mut self, now: Instant, peer: String) {
        self.0.insert(peer, now + PATIENCE);
    }

    /// Its call has come, or this one calls it again.
    pub(super) fn end(&mut self, peer: &str) {
        self.0.remove(peer);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// A host whose call has not come in time.
    pub(super) fn poll_late(&mut self, now: Instant) -> Option<String> {
        let (peer, _) = self.0.iter().find(|(_, until)| **until <= now)?;
        let peer = peer.clone();
        self.0.remove(&peer);
        Some(peer)
    }
}

/// A request that is lost is sent for the fourth time after 3.5 s. A connection waits for twice as
/// long as this.
const PATIENCE: Duration = Duration::from_secs(5);
