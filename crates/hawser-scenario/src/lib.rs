//! Scenarios: sets of links and events on them, read from strict TOML; and the model of one
//! direction of a link. The lab applies it to real packets, the simulator to its own.
#![forbid(unsafe_code)]

mod congestion;
pub mod figures;
mod file;
mod line;
mod middlebox;
pub mod promise;
mod trace;
mod values;
mod workload;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser_types::{ByteCount, Rate};

pub use congestion::{Congestion, UnknownCongestion};
pub use line::{Fate, LineState};
pub use middlebox::{Forgotten, Nat, TcpOption};
pub use trace::{Segment, TraceError};
pub use workload::{Application, Arrival, Sizes, Workload};

/// A set of links, the payload of one transfer over all of them, and the events during it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// One line for `hawser-lab list`.
    pub summary: String,
    /// Payload of one transfer over all links.
    pub payload: ByteCount,
    /// Directions measured by default.
    pub directions: Vec<Direction>,
    /// Seed of the random numbers of loss, jitter and service.
    pub seed: u64,
    /// The links, in order: link 1 is `l1`.
    pub links: Vec<Link>,
    /// Events during a transfer, in order of time.
    pub events: Vec<Event>,
    /// Link that all others share in front of the server; `None` for one without limits.
    pub server: Option<Link>,
    /// Connections that begin and end, for experiments that use them.
    pub workload: Option<Workload>,
}

/// One of the scenarios of a file with a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The key that differs, as in the file; empty without a sweep.
    pub key: String,
    /// Value of that key.
    pub value: String,
    /// The scenario with that value.
    pub scenario: Scenario,
}

impl Point {
    /// Reads and checks a file; returns a scenario for each value of its sweep, or its only one.
    /// Otherwise as [`Scenario::load`].
    pub fn load(path: &Path, read: ReadText<'_>) -> Result<Vec<Self>, ScenarioError> {
        load(path, read, file::parse_points)
    }
}

impl Scenario {
    /// Reads and checks one scenario file; traces are found beside it. `read` returns the text of a
    /// file.
    pub fn load(path: &Path, read: ReadText<'_>) -> Result<Self, ScenarioError> {
        load(path, read, file::parse)
    }

    /// Reads a scenario from its text. `read` returns the text of a trace file, by its name in the
    /// scenario; [`no_files`] is for a text without traces.
    pub fn parse(name: &str, text: &str, read: ReadText<'_>) -> Result<Self, InvalidScenario> {
        file::parse(name, text, read)
    }

    /// Returns the sum of the links' mean rates in one direction.
    pub fn total_rate(&self, direction: Direction) -> Rate {
        self.links.iter().map(|l| l.line(direction).rate).sum()
    }

    /// Returns the part of the payload that loads link `index` alone for as long as the whole loads
    /// all links, so that start-up costs weigh the same on both.
    pub fn single_payload(&self, index: usize, direction: Direction) -> ByteCount {
        let all = self.total_rate(direction).bytes_per_second();
        let Some(link) = self.links.get(index) else {
            return self.payload;
        };
        let own = link.line(direction).rate.bytes_per_second();
        let bytes = u128::from(self.payload.as_u64()) * u128::from(own);
        let share = u64::try_from(bytes / u128::from(all.max(1))).unwrap_or(u64::MAX);
        ByteCount::new(share).max(MIN_SINGLE_PAYLOAD)
    }
}

fn load<T>(
    path: &Path,
    read: ReadText<'_>,
    parse: fn(&str, &str, ReadText<'_>) -> Result<T, InvalidScenario>,
) -> Result<T, ScenarioError> {
    let text = read(path).map_err(|reason| ScenarioError::Read {
        path: path.to_owned(),
        reason,
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = |trace: &Path| read(&folder.join(trace));
    parse(&name, &text, &beside).map_err(|reason| ScenarioError::Invalid {
        path: path.to_owned(),
        reason: Box::new(reason),
    })
}

/// Function that returns the text of the file with this name.
pub type ReadText<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Refuses every file: for scenarios that need none.
pub fn no_files(_: &Path) -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client host to the server host.
    Put,
    /// From the server host to the client host.
    Get,
}

impl Direction {
    /// Returns the name used by the meter and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
        }
    }
}

/// One access link: its two directions, and the client's address on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Client to server.
    pub up: Line,
    /// Server to client.
    pub down: Line,
    /// The client is behind a modem with NAT that gives it this address (and `.1` as gateway);
    /// several links may have the same one.
    pub behind: Option<std::net::Ipv4Addr>,
    /// A NAT on the path that forgets connections.
    pub nat: Option<Nat>,
    /// TCP options removed by a middlebox, in both directions.
    pub strip: Vec<TcpOption>,
}

impl Link {
    /// Returns the line that a transfer in `direction` loads.
    pub fn line(&self, direction: Direction) -> &Line {
        match direction {
            Direction::Put => &self.up,
            Direction::Get => &self.down,
        }
    }

    /// Returns the round-trip time of the idle link, without jitter.
    pub fn round_trip(&self) -> Duration {
        self.up.delay + self.down.delay
    }
}

/// One direction of a link. Packets queue, are served at the rate, then delayed, then lost.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Mean rate, counting whole IP packets.
    pub rate: Rate,
    /// One-way delay behind the queue.
    pub delay: Duration,
    /// Maximum random deviation from `delay`, either way; order is kept.
    pub jitter: Duration,
    /// Random loss behind the queue.
    pub loss: Loss,
    /// Drop-tail queue, in time of the mean rate.
    pub queue: Duration,
    /// Distribution of the rate over time.
    pub service: Service,
}

/// Random loss of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// Loss probability of a packet, 0 to 1.
    pub mean: f64,
    /// Mean length of a loss burst in packets, 1 to 1000; `None` for independent losses.
    ///
    /// Source: Gilbert, BSTJ 39 (1960), with everything lost in the bad state and nothing in the
    /// good one.
    pub burst: Option<f64>,
}

impl Loss {
    /// Nothing is lost.
    pub const NONE: Self = Self {
        mean: 0.0,
        burst: None,
    };
}

/// Distribution of a line's rate over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// Constant.
    Steady,
    /// Alternating periods of service and none, with lengths drawn uniformly from the two ranges;
    /// the rate during service is such that the mean over time is the line's rate.
    Bursty {
        /// Shortest and longest period of service.
        on: (Duration, Duration),
        /// Shortest and longest period without service.
        off: (Duration, Duration),
    },
    /// Pieces of constant rate, repeated endlessly.
    Trace(Vec<Segment>),
}

/// An event on a link during a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time since the transfer began.
    pub at: Duration,
    /// Index of the link, from 0.
    pub link: usize,
    /// Effect on the link.
    pub action: Action,
}

/// Effect of an event on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Every packet is dropped silently, both ways.
    BlackHole,
    /// The black hole ends.
    Pass,
    /// The client's interface loses its carrier.
    CarrierDown,
    /// The carrier is back.
    CarrierUp,
    /// The client's address on the link is replaced by another of the same subnet.
    AddressChange,
}

/// A scenario file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: io::Error,
    },
    /// The file's content is wrong.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Description of the error and its place.
        reason: Box<InvalidScenario>,
    },
}

/// An error in a scenario's text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScenario {
    /// Not TOML, an unknown key, or a value without its unit; the message holds line and key.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A value outside its range.
    #[error("{key} is {got}: allowed is {allowed}")]
    Value {
        /// The key, with the link's or event's number.
        key: String,
        /// Value in the file.
        got: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// A trace that cannot be used.
    #[error("{key}: {reason}")]
    Trace {
        /// The key, with the link's number.
        key: String,
        /// Description of the error.
        reason: TraceError,
    },
}

/// Minimum payload: a smaller transfer measures connection setup rather than a link.
const MIN_SINGLE_PAYLOAD: ByteCount = ByteCount::from_kib(64);
/// Maximum number of links; more are a mistake in the file.
pub const MAX_LINKS: usize = 16;
