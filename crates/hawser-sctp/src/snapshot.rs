use std::time::Duration;

use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use crate::path::{Path, PathState};
use crate::{Route, Traffic};

/// State of a path at one moment: a row of the paper's table of virtual associations.
///
/// Source: SCTP aggregation §3.1, table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSnapshot {
    /// Pair of addresses.
    pub route: Route,
    /// The peer's link, if the peer has announced it.
    pub peer_link: Option<LinkIndex>,
    /// The link that policies know the path by: see
    /// [`Association::set_links`](crate::Association::set_links).
    pub link: LinkIndex,
    /// The path answers.
    pub is_active: bool,
    /// The path is selected to carry data.
    pub is_selected: bool,
    /// The path has been silent for longer than its round-trip time explains.
    pub is_suspect: bool,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Minimum round-trip time of the last one to two minutes; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Retransmission time-out.
    pub rto: Duration,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes in flight.
    pub in_flight: ByteCount,
    /// Delivery rate; zero while unknown.
    pub rate: Rate,
    /// Largest packet known to pass, with its SCTP header.
    pub packet_size: usize,
    /// Packets sent over the path.
    pub sent: Traffic,
    /// Packets with data that counted as lost because later ones arrived, since the path began.
    pub overtaken: u64,
    /// Packets received over the path.
    pub received: Traffic,
}

/// Data given to an association to send and not yet acknowledged by the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Payload that is not in a packet yet.
    pub queued: ByteCount,
    /// Payload in flight, or lost and waiting for retransmission.
    pub in_flight: ByteCount,
    /// Time of the last acknowledgement; [`Instant::ZERO`] before the first.
    pub acknowledged_at: Instant,
    /// Payload duplicated so far because of [`Message::twice`](crate::Message::twice), beyond the
    /// fixed rate that is always allowed.
    pub sent_twice: ByteCount,
    /// Payload of all copies of chunks so far that were in flight already: by
    /// [`Message::twice`](crate::Message::twice), by a policy that duplicates, and of what was late
    /// or on a suspect path. Retransmissions of what was lost are not among them.
    pub copied: ByteCount,
}

impl PathSnapshot {
    pub(crate) fn of(now: Instant, path: &Path) -> Self {
        Self {
            route: path.route,
            peer_link: path.peer_link,
            link: path.link,
            is_active: path.state == PathState::Active,
            is_selected: path.selected,
            is_suspect: path.is_suspect(now),
            rtt: path.rtt.smoothed(),
            min_rtt: path.rtt.min(),
            rto: path.rtt.rto(),
            window: path.congestion.window(),
            in_flight: path.flight.bytes(),
            rate: path.delivery_rate(),
            packet_size: path.packet_size,
            sent: path.sent,
            overtaken: path.flight.overtaken(),
            received: path.received,
        }
    }
}
