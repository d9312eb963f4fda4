use std::time::Duration;

use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use crate::Route;
use crate::path::{Path, PathState};

/// How a pair of addresses does, at one moment: a row of the paper's table of virtual associations.
///
/// Source: SCTP aggregation §3.1, table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSnapshot {
    /// From where to where.
    pub route: Route,
    /// The peer's link below it, where the peer has named it.
    pub peer_link: Option<LinkIndex>,
    /// It answers.
    pub is_active: bool,
    /// It was selected to carry data.
    pub is_selected: bool,
    /// It has been silent for longer than its round trips explain.
    pub is_suspect: bool,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// The retransmission time-out at present.
    pub rto: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// What is under way.
    pub in_flight: ByteCount,
    /// How fast it delivers; zero while unknown.
    pub rate: Rate,
    /// The largest packet known to pass, with its SCTP header.
    pub packet_size: usize,
    /// What has left over it since it was known.
    pub sent: Traffic,
    /// What has come over it since then.
    pub received: Traffic,
}

/// Packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub packets: u64,
    /// Their bytes, with SCTP headers and whatever is not payload.
    pub bytes: ByteCount,
}

/// What an association has been given to send and the peer does not have yet, as far as it has told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Payload that is in no packet yet.
    pub queued: ByteCount,
    /// Payload that is under way, or lost and to be sent again.
    pub under_way: ByteCount,
    /// When the peer last acknowledged anything; [`Instant::ZERO`] before it has.
    pub acknowledged_at: Instant,
    /// Payload that was sent twice at once so far since [`Message::twice`](crate::Message::twice) said so; without what
    /// goes so at any time, for a few calls.
    pub sent_twice: ByteCount,
}

impl Traffic {
    pub(crate) fn add(&mut self, size: usize) {
        self.packets += 1;
        self.bytes += ByteCount::from(size);
    }
}

impl PathSnapshot {
    pub(crate) fn of(now: Instant, path: &Path) -> Self {
        Self {
            route: path.route,
            peer_link: path.peer_link,
            is_active: path.state == PathState::Active,
            is_selected: path.selected,
            is_suspect: path.is_suspect(now),
            rtt: path.rtt.smoothed(),
            rto: path.rtt.rto(),
            window: path.congestion.window(),
            in_flight: path.flight.bytes(),
            rate: path.delivery_rate(),
            packet_size: path.packet_size,
            sent: path.sent,
            received: path.received,
        }
    }
}
