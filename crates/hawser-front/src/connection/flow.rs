use std::sync::Arc;
use std::time::Duration;

use hawser_director::{FlowId, GatewayDecision, LinkDecision, Over};
use hawser_path::Segments;
use hawser_types::{ByteCount, DialError, Instant, LinkIndex};

use super::counters::Counters;
use super::director::SharedDirector;
use super::stranded::Stranded;

/// A connection on its way out, as the director counts it.
///
/// While it lives, its link or the gateway is charged with what it has still to carry; dropping it
/// gives the charge back. One that was connected also teaches what connections of its kind need.
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
    /// Returns the link that it is on; `None` for the gateway.
    pub const fn link(&self) -> Option<LinkIndex> {
        self.over.link()
    }

    /// The far end has accepted the connection, after `latency` where that was measured.
    pub fn connected(&self, latency: Option<Duration>) {
        self.connected_since(latency, Duration::ZERO);
    }

    /// The same for a connection whose acceptance is only heard of now and was so long ago, so that
    /// its bytes since then do not count as moved in a moment.
    pub fn connected_since(&self, latency: Option<Duration>, ago: Duration) {
        self.director.with(|director, now| {
            director.handle_connected(now, self.id, now - ago, latency);
        });
    }

    /// The far end has refused the connection, or there is no way to it.
    pub(crate) fn failed(&self, error: DialError) {
        self.director
            .with(|director, _| director.note_refused(self.id, error));
    }

    /// Whether its link is gone.
    pub(super) fn stranded(&self) -> &Stranded {
        self.counters.stranded()
    }

    /// It has moved so many bytes more.
    pub fn moved(&self, up: ByteCount, down: ByteCount) {
        self.counters.add(up, down);
    }

    /// The same for bytes that are heard of late: they were moved after `since`.
    pub(super) fn moved_since(&self, since: Instant, up: ByteCount, down: ByteCount) {
        self.counters.add_since(since, up, down);
    }

    /// A packet of the far end came at this time, or later. For a connection whose bytes are heard
    /// of late.
    pub(super) fn heard(&self, at: Instant) {
        self.counters.set_heard(at);
    }

    /// It has sent so many segments since its beginning, and some of them again.
    pub fn sent(&self, segments: Segments) {
        self.director
            .with(|director, now| director.handle_segments(now, self.id, segments));
    }

    /// Takes in the kernel's round-trip time of it.
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
