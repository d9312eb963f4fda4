use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::Route;
use crate::path::{Path, PathState};

/// How a pair of addresses does, at one moment: a row of the paper's table of virtual associations.
///
/// Source: SCTP aggregation §3.1, table 1.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSnapshot {
    /// From where to where.
    pub route: Route,
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
}

impl PathSnapshot {
    pub(crate) fn of(now: Instant, path: &Path) -> Self {
        Self {
            route: path.route,
            is_active: path.state == PathState::Active,
            is_selected: path.selected,
            is_suspect: path.is_suspect(now),
            rtt: path.rtt.smoothed(),
            rto: path.rtt.rto(),
            window: path.congestion.window(),
            in_flight: path.flight.bytes(),
            rate: path.delivery_rate(),
            packet_size: path.packet_size,
        }
    }
}
