use std::sync::Arc;
use std::time::Duration;

use hawser_director::{FlowId, GatewayDecision, LinkDecision, Over};
use hawser_path::Segments;
use hawser_types::{ByteCount, DialError, Instant, LinkIndex};

use super::counters::Counters;
use super::director::SharedDirector;
use super::stranded::Stranded;

/// An outgoing connection, as the director counts it.
///
/// While it lives, its link or the gateway is charged with the bytes that it still has to carry;
/// dropping it gives the charge back. From an established connection, the director also learns
/// the demand of connections of its kind.
#[derive(Debug)]
pub struct Flow {
    director: SharedDirector,
    id: FlowId,
    over: Over,
    counters: Arc<Counters>,
}

impl SharedDirector {
    /// Charges a link with a connection that is about to be made on it.
    pub fn open(&self, decision: &LinkDecision, link: LinkIndex) -> Flow {
        let (id, counters) = self.begin(|director, now| director.open(now, decision, link));
        Flow {
            director: self.clone(),
            id,
            over: Over::Link(link),
            counters,
        }
    }

    /// Charges the gateway with a connection that is about to be made over it.
    pub fn open_by_gateway(&self, decision: &GatewayDecision) -> Flow {
        let (id, counters) = self.begin(|director, now| director.open_by_gateway(now, decision));
        Flow {
            director: self.clone(),
            id,
            over: Over::Gateway,
            counters,
        }
    }
}

impl Flow {
    /// Returns the connection's link; `None` for the gateway.
    pub const fn link(&self) -> Option<LinkIndex> {
        self.over.link()
    }

    /// Records that the far end has accepted the connection, after `latency` if that was measured.
    pub fn connected(&self, latency: Option<Duration>) {
        self.connected_since(latency, Duration::ZERO);
    }

    /// As [`Self::connected`], for an acceptance that happened `ago` and is reported only now. The
    /// bytes since then do not count as moved in an instant.
    pub fn connected_since(&self, latency: Option<Duration>, ago: Duration) {
        self.director.with(|director, now| {
            director.handle_connected(now, self.id, now - ago, latency);
        });
    }

    /// Records that the far end has refused the connection or can't be reached.
    pub(crate) fn failed(&self, error: DialError) {
        self.director
            .with(|director, _| director.note_refused(self.id, error));
    }

    /// Returns the flag that is set when the connection's link is gone.
    pub(super) fn stranded(&self) -> &Stranded {
        self.counters.stranded()
    }

    /// Records that the connection has moved this many more bytes.
    pub fn moved(&self, up: ByteCount, down: ByteCount) {
        self.counters.add(up, down);
    }

    /// As [`Self::moved`], for bytes that are reported late: they were moved after `since`.
    pub(super) fn moved_since(&self, since: Instant, up: ByteCount, down: ByteCount) {
        self.counters.add_since(since, up, down);
    }

    /// Records that a packet of the far end arrived at this time or later. For a connection whose
    /// bytes are reported late.
    pub(super) fn heard(&self, at: Instant) {
        self.counters.set_heard(at);
    }

    /// Records how many segments the connection has sent since its beginning, and how many of these
    /// were retransmissions.
    pub fn sent(&self, segments: Segments) {
        self.director
            .with(|director, now| director.handle_segments(now, self.id, segments));
    }

    /// Records the kernel's round-trip time of the connection.
    pub fn round_trip(&self, rtt: Duration) {
        self.director
            .with(|director, _| director.handle_round_trip(self.over, rtt));
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.director.end(self.id);
    }
}
