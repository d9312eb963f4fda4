//! The meter: one transfer at a time, from connect to the last byte acknowledged by the
//! receiving application, checked by count and CRC.
//!
//! On the wire: one byte `P` or `G`, the number of bytes and the number of a congestion control
//! (both 8 bytes, big-endian), the bytes, and their CRC-32 (8 bytes). For a put the receiver
//! answers with its verdict in JSON.
//!
//! `E` with the same two numbers opens an echo instead: the server sends each block of so many bytes
//! back, one after another, until the client ends.

mod body;
mod client;
mod server;
mod socks;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::Direction;

pub use client::{open_echo, transfer};
pub use server::{serve, serve_until_ended};
pub(crate) use socks::connect as socks_connect;

/// One transfer to make.
#[derive(Clone, Debug)]
pub struct Order {
    /// Which way the bytes go.
    pub direction: Direction,
    /// The meter's server.
    pub server: SocketAddrV4,
    /// How many bytes.
    pub bytes: u64,
    /// Bind to this address.
    pub source: Option<Ipv4Addr>,
    /// Bind to this interface.
    pub device: Option<String>,
    /// Speak MPTCP rather than TCP.
    pub mptcp: bool,
    /// Congestion control at both ends; else the machine's default.
    pub congestion: Option<Congestion>,
    /// Go through this SOCKS5 port.
    pub socks: Option<SocketAddrV4>,
    /// Give up after so much time without a byte.
    pub patience: Duration,
}

/// The congestion controls that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// The default of most machines.
    Cubic,
    /// The one that does not take loss for congestion.
    Bbr,
}

impl Congestion {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Bbr];

    /// The kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }

    fn number(wanted: Option<Self>) -> u64 {
        match wanted {
            None => 0,
            Some(Self::Cubic) => 1,
            Some(Self::Bbr) => 2,
        }
    }

    fn of_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Cubic),
            2 => Some(Self::Bbr),
            _ => None,
        }
    }
}

/// What one transfer came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// How many bytes.
    pub bytes: u64,
    /// Seconds until the connection stood.
    pub connect_seconds: f64,
    /// Seconds from the start of connecting to the receiving application's last byte.
    pub seconds: f64,
    /// Megabits of payload a second over that time.
    pub mbps: f64,
    /// Whether count and CRC were right.
    pub ok: bool,
    /// The longest time without a byte at the receiver, in seconds.
    pub worst_gap: f64,
    /// Bytes received in each [`BIN`].
    pub timeline: Vec<u64>,
    /// Processor time that the measuring client's process had taken by the end, in seconds.
    pub cpu_seconds: f64,
}

/// What the receiver of a put tells the sender.
#[derive(Debug, Serialize, Deserialize)]
struct Verdict {
    ok: bool,
    worst: f64,
    bins: Vec<u64>,
}

/// The largest request that the echo takes.
pub const MAX_ECHO: u32 = 64 << 10;
/// The resolution of timelines.
pub const BIN: Duration = Duration::from_millis(50);
/// The longest verdict that is read: a day's timeline.
const MAX_VERDICT: u64 = 16 << 20;
