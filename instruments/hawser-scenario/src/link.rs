use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use crate::{Nat, Segment, TcpOption};

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
    /// Size of the largest IP packet that passes; larger ones vanish without an ICMP message.
    /// `None` if the line takes every packet that its interface sends.
    pub largest_packet: Option<ByteCount>,
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
