//! The meter: one transfer at a time, from connect to the last byte acknowledged by the
//! receiving application, checked by count and CRC.
//!
//! On the wire: a header, the bytes, and their CRC-32 (8 bytes). For a put the receiver answers
//! with its receipt in JSON. An echo sends each block of so many bytes back, one after another,
//! until the client ends.

mod association;
mod body;
mod client;
mod connects;
mod crowd;
mod datagrams;
mod header;
mod library;
mod many_clients;
mod places;
mod quic;
mod server;
pub(crate) mod socks;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cpu;
use crate::emulator::LinkBytes;
use crate::scenario::Direction;

pub use crate::scenario::Congestion;
pub(crate) use association::{AssociationOrder, AssociationOutcome, run as run_association};
pub(crate) use client::ask;
pub use client::{FirstAnswer, first_answer, open_echo, transfer};
pub(crate) use connects::connects;
pub(crate) use crowd::{CrowdOrder, CrowdOutcome, run as run_crowd};
pub(crate) use datagrams::{DatagramOrder, DatagramOutcome, run_datagrams, serve_datagrams};
pub(crate) use library::{Embedding, LibraryOrder, library_transfer, serve_library};
pub(crate) use many_clients::{
    Answers, Ask, Load, Loaded, MAX_CLIENTS, ManyClients, address, identity,
    run as run_many_clients,
};
pub(crate) use quic::{QuicControl, QuicOrder, run as run_quic};
pub(crate) use server::serve_all;
pub use server::{port, serve, serve_until_ended};

/// One transfer to make.
#[derive(Clone, Debug)]
pub struct Order {
    /// Direction of the bytes.
    pub direction: Direction,
    /// The meter's server.
    pub server: SocketAddrV4,
    /// Number of bytes.
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

/// The results of one transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Outcome {
    /// Number of bytes.
    pub bytes: u64,
    /// Seconds until the connection stood.
    pub connect_seconds: f64,
    /// Seconds from the start of connecting to the receiving application's last byte.
    pub seconds: f64,
    /// Megabits of payload a second over that time.
    pub mbps: f64,
    /// True if count and CRC were right.
    pub ok: bool,
    /// The longest time without a byte at the receiver, in seconds.
    pub worst_gap: f64,
    /// Bytes received in each [`BIN`].
    pub timeline: Vec<u64>,
    /// Processor time that the measuring client's process had taken by the end, in seconds.
    pub cpu_seconds: f64,
    /// IP bytes that each link carried meanwhile; filled in by the bench, which sees the links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wire: Vec<LinkBytes>,
    /// Counters of both ends of Hawser since their session began, by name; empty for others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hawser: BTreeMap<String, u64>,
}

impl Outcome {
    /// Returns the results of a transfer that began at `start` and ended now.
    fn new(bytes: u64, start: Instant, connected: Duration, receipt: Receipt) -> Self {
        let seconds = start.elapsed().as_secs_f64();
        Self {
            bytes,
            connect_seconds: connected.as_secs_f64(),
            seconds,
            mbps: bytes as f64 * 8.0 / seconds / 1e6,
            ok: receipt.ok,
            worst_gap: receipt.worst,
            timeline: receipt.bins,
            cpu_seconds: cpu::of_this_process(),
            wire: Vec::new(),
            hawser: BTreeMap::new(),
        }
    }
}

/// The receiver's answer to the sender of a put.
#[derive(Debug, Serialize, Deserialize)]
struct Receipt {
    ok: bool,
    worst: f64,
    bins: Vec<u64>,
}

/// The largest request that the echo takes.
pub const MAX_ECHO: u32 = 64 << 10;
/// The resolution of timelines.
pub const BIN: Duration = Duration::from_millis(50);
/// The longest receipt that is read: a day's timeline.
const MAX_RECEIPT: u64 = 16 << 20;
