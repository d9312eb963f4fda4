use std::net::{SocketAddrV4, SocketAddrV6};

use hawser_sched::connection::{ConnectionPolicy, Demand, GatewayUse};
use hawser_types::{ByteCount, LinkIndex, Rate};
use std::time::Duration;

use crate::tables::{self, CLASSES, DemandRow, LinkRow};

/// How connections are placed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which policy chooses the link.
    pub policy: ConnectionPolicy,
    /// Where IPv4 connections go that are to be bonded; with none they go direct.
    pub redirect_ipv4: Option<SocketAddrV4>,
    /// Likewise for IPv6.
    pub redirect_ipv6: Option<SocketAddrV6>,
    /// What becomes of connections of which the rules say `auto`.
    pub unruled: Unruled,
    /// What a connection is expected to need of which nothing is known, for each class in the
    /// order of [`hawser_sched::connection::Class::ALL`].
    pub demand: [Bytes; CLASSES],
}

/// What becomes of a connection of which the rules say `auto`, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unruled {
    /// It is bonded if its destination is one of the peers, direct otherwise.
    #[default]
    Peers,
    /// It goes direct.
    Direct,
    /// It is bonded.
    Bonded,
}

/// Bytes that a connection moves, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Bytes {
    /// Sent.
    pub up: ByteCount,
    /// Received.
    pub down: ByteCount,
}

/// A link as the kernel's program knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEntry {
    /// The link.
    pub index: LinkIndex,
    /// The device's name, by which the program binds and rules name it.
    pub name: String,
    /// What it can send; zero while unknown.
    pub up: Rate,
    /// What it can receive; zero while unknown.
    pub down: Rate,
    /// Its round-trip time as it is now; zero while unknown.
    pub latency: Duration,
    /// Whether new connections may take it: it is up, and not known to be dead or behind a portal.
    pub usable: bool,
    /// Whether it leads to the IPv4 internet.
    pub ipv4: bool,
    /// Whether it leads to the IPv6 internet.
    pub ipv6: bool,
    /// Whether it costs, or has an allowance.
    pub metered: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: ConnectionPolicy::default(),
            redirect_ipv4: None,
            redirect_ipv6: None,
            unruled: Unruled::default(),
            demand: [DEFAULT_DEMAND; CLASSES],
        }
    }
}

impl From<Demand> for Bytes {
    fn from(demand: Demand) -> Self {
        Self {
            up: demand.up,
            down: demand.down,
        }
    }
}

impl LinkEntry {
    pub(crate) fn row(&self) -> LinkRow {
        LinkRow {
            up: self.up.bytes_per_second(),
            down: self.down.bytes_per_second(),
            latency: u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX),
            index: self.index.value(),
            name: tables::comm(&self.name),
            unused: 0,
        }
    }
}

impl From<Bytes> for DemandRow {
    fn from(bytes: Bytes) -> Self {
        Self {
            up: bytes.up.as_u64(),
            down: bytes.down.as_u64(),
        }
    }
}

pub(crate) const fn policy_number(policy: ConnectionPolicy) -> u32 {
    match policy {
        ConnectionPolicy::OnlyOne => 0,
        ConnectionPolicy::RoundRobin => 1,
        ConnectionPolicy::WeightedRoundRobin => 2,
        ConnectionPolicy::MaxThroughput => 3,
        _ => 4,
    }
}

impl From<GatewayUse> for Unruled {
    /// Where there is a gateway, and what is redirected goes to who decides for each connection.
    fn from(usage: GatewayUse) -> Self {
        match usage {
            GatewayUse::Never => Self::Direct,
            GatewayUse::Always | GatewayUse::Auto => Self::Bonded,
        }
    }
}

impl Unruled {
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Peers => 0,
            Self::Direct => 1,
            Self::Bonded => 2,
        }
    }
}

/// About a page of the web: most connections are small.
const DEFAULT_DEMAND: Bytes = Bytes {
    up: ByteCount::new(2_000),
    down: ByteCount::new(30_000),
};
