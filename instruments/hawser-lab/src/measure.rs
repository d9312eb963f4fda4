//! Measuring one scenario: plain TCP on each link, MPTCP over all, Hawser over all.

mod bench;
mod findings;
mod hawser;
mod library;
mod overhead;
mod programs;
pub(crate) mod recovery;
mod report;
mod run;
mod summary;
mod table;
mod verdict;

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::ByteCount;
use serde::Serialize;

pub use bench::{Bench, StepError};
pub use hawser::{Meeting, Session};
pub use overhead::WireCost;
pub use programs::{Programs, ProgramsError};
pub use report::{Entry, RunReport};
pub use run::run;
pub use summary::Summary;

pub(crate) use bench::{limit_for, own_program, wait_for_port};
pub(crate) use hawser::{
    GATEWAY, SOCKS, start_direct, start_gateway, wait_for_file, wait_for_paths,
};
pub(crate) use library::LibraryServer;
pub(crate) use run::available_controls;

use crate::meter::{Congestion, Outcome};
use crate::scenario::{Direction, Link, Scenario};
use crate::statistics::median;

/// The transfers to measure, and their number.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of times each.
    pub repeat: u32,
    /// Directions of the bytes; the scenario's own when empty.
    pub directions: Vec<Direction>,
    /// Contenders to measure beside Hawser.
    pub contenders: Vec<ContenderKind>,
    /// Transfers on the warm Hawser session per repetition.
    pub warm: u32,
    /// The Hawser binary; without it Hawser is not measured.
    pub hawser: Option<Programs>,
    /// How Hawser's client comes to know its server.
    pub meeting: Meeting,
    /// Payload of a transfer.
    pub payload: Payload,
    /// After the first repetition, only the congestion control that is ahead so far.
    pub quick: bool,
}

impl Options {
    /// The scenario with the payload of a transfer in `direction`.
    pub(crate) fn sized(&self, scenario: &Scenario, direction: Direction) -> Scenario {
        let payload = match self.payload {
            Payload::Span(span) if scenario.events.is_empty() => {
                (scenario.total_rate(direction) * span).max(MIN_PAYLOAD)
            }
            Payload::Bytes(bytes) => bytes,
            Payload::Span(_) | Payload::Own => scenario.payload,
        };
        Scenario {
            payload,
            ..scenario.clone()
        }
    }
}

/// Payload of one transfer over all links.
#[derive(Clone, Copy, Debug)]
pub enum Payload {
    /// The scenario's payload.
    Own,
    /// A number of bytes.
    Bytes(ByteCount),
    /// Bytes that all links carry in this time, but 64 KiB at least; scenarios with events keep
    /// their own.
    Span(Duration),
}

/// Kinds of contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum ContenderKind {
    /// Plain TCP on each link alone.
    Tcp,
    /// The kernel's MPTCP over all links.
    Mptcp,
    /// Hawser over all links, through its SOCKS port.
    Hawser,
}

/// One kind of transfer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case", tag = "by")]
pub enum Kind {
    /// Plain TCP on one link.
    Tcp {
        /// The link, from 1.
        link: usize,
        /// The congestion control.
        congestion: Congestion,
    },
    /// MPTCP with its first subflow on link 1.
    Mptcp {
        /// The congestion control.
        congestion: Congestion,
    },
    /// The first transfer on a fresh Hawser session.
    HawserFirst,
    /// A later transfer on the same session.
    HawserWarm,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp { link, congestion } => {
                f.pad(&format!("tcp link {link} {}", congestion.name()))
            }
            Self::Mptcp { congestion } => f.pad(&format!("mptcp {}", congestion.name())),
            Self::HawserFirst => f.pad("hawser first"),
            Self::HawserWarm => f.pad("hawser warm"),
        }
    }
}

/// All transfers of one kind in one direction.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Samples {
    /// Transfers that finished.
    pub outcomes: Vec<Outcome>,
    /// Errors of the others.
    pub failures: Vec<String>,
}

impl Samples {
    /// The median of the goodputs, in Mbit/s; nothing when no transfer finished.
    pub fn median(&self) -> Option<f64> {
        median(self.outcomes.iter().map(|outcome| outcome.mbps))
    }

    /// The largest gap at the receiver among the transfers, in seconds.
    pub fn worst_gap(&self) -> Option<f64> {
        self.outcomes.iter().map(|o| o.worst_gap).reduce(f64::max)
    }
}

/// Every sample of a run.
pub type Table = BTreeMap<(Direction, Kind), Samples>;

/// The link with the shortest way there and back, from 0, and how long that takes.
pub(crate) fn quickest_link(scenario: &Scenario) -> (usize, Duration) {
    let round_trips = scenario.links.iter();
    round_trips
        .map(Link::round_trip)
        .enumerate()
        .min_by_key(|(_, round_trip)| *round_trip)
        .unwrap_or_default()
}

/// Returns the number of links when all are equal; else none.
pub(crate) fn alike(scenario: &Scenario, direction: Direction) -> usize {
    let lines = || scenario.links.iter().map(|link| link.line(direction));
    let first = lines().next();
    if lines().all(|line| Some(line) == first) {
        scenario.links.len()
    } else {
        0
    }
}

/// Among the counters of a transfer: connections that the server has connected for a stranger.
const BONDED: &str = "bonded";
/// Part of a link's rate that full-size TCP segments can carry: 1448 of 1500 bytes.
pub(crate) const TCP_SHARE: f64 = 1448.0 / 1500.0;
/// Less measures connection set-up rather than links.
pub(crate) const MIN_PAYLOAD: ByteCount = ByteCount::from_kib(64);
