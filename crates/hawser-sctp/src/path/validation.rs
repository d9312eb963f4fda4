use std::time::Duration;

use hawser_types::Instant;

/// Bytes over a path that exists only because a packet came from it, until it has answered.
///
/// Any host that forwards a datagram of the peer, with any source address, makes such a path. So
/// the path gets few bytes, and is forgotten soon.
///
/// Source: RFC 9000 §8 (three times what came) and §8.2 (path validation).
#[derive(Debug)]
pub(super) struct Validation {
    since: Instant,
    received: u64,
    sent: u64,
}

impl Validation {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            received: 0,
            sent: 0,
        }
    }

    /// Returns when the path was first seen.
    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Returns when the path is forgotten without an answer.
    pub(super) fn ends_at(&self) -> Instant {
        self.since + LIFE
    }

    /// Handles a packet with this size that came over the path.
    pub(super) fn on_received(&mut self, size: usize) {
        self.received = self.received.saturating_add(datagram(size));
    }

    /// Handles a packet with this size that leaves over the path.
    pub(super) fn on_sent(&mut self, size: usize) {
        self.sent = self.sent.saturating_add(datagram(size));
    }

    /// Tells whether a packet with this size may leave.
    pub(super) fn allows(&self, size: usize) -> bool {
        self.sent.saturating_add(datagram(size)) <= self.received.saturating_mul(FACTOR)
    }
}

/// Returns about how many bytes a packet has on the wire.
fn datagram(packet: usize) -> u64 {
    packet as u64 + BELOW
}

/// Bytes that may be sent for each that came.
const FACTOR: u64 = 3;
/// Bytes that IPv4, UDP and a seal add to a packet.
const BELOW: u64 = 20 + 8 + 23;
/// Time in which the path has to answer.
const LIFE: Duration = Duration::from_secs(10);
