use std::net::{SocketAddrV4, SocketAddrV6};

use hawser_sched::connection::{ConnectionPolicy, Demand, GatewayUse};
use hawser_types::{ByteCount, LinkIndex, Rate};
use std::time::Duration;

use crate::tables::{self, CLASSES, DemandRow, LinkRow};

/// Settings for captured connections.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Policy that chooses the link.
    pub policy: ConnectionPolicy,
    /// Redirect address for bonded IPv4 connections; without it these connections go direct.
    pub redirect_ipv4: Option<SocketAddrV4>,
    /// Redirect address for bonded IPv6 connections.
    pub redirect_ipv6: Option<SocketAddrV6>,
    /// Treatment of connections for which the rules say `auto`.
    pub unruled: Unruled,
    /// Mark of sockets that are bound to links (`SO_MARK`), by which a kill switch knows them;
    /// `None` sets no mark.
    pub mark: Option<u32>,
    /// Expected demand of an unknown connection, for each class in the order of
    /// [`hawser_sched::connection::Class::ALL`].
    pub demand: [Bytes; CLASSES],
}

/// Treatment of a connection for which the rules say `auto`, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Unruled {
    /// The connection is bonded if its destination is one of the peers, direct otherwise.
    #[default]
    Peers,
    /// The connection goes direct.
    Direct,
    /// The connection is bonded.
    Bonded,
}

/// Address families whose packets the machine's routes lead to a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CarriedFamilies {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

/// Bytes that a connection moves, in both directions.
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
    /// Name of the interface, by which the program binds and rules refer to it.
    pub name: String,
    /// Sending rate; zero while unknown.
    pub up: Rate,
    /// Receiving rate; zero while unknown.
    pub down: Rate,
    /// Current round-trip time; zero while unknown.
    pub latency: Duration,
    /// Whether the link accepts new connections: it is up, and not known to be dead or behind a
    /// captive portal.
    pub usable: bool,
    /// Whether the link reaches the IPv4 internet.
    pub ipv4: bool,
    /// Whether the link reaches the IPv6 internet.
    pub ipv6: bool,
    /// Whether the link has a price or an allowance.
    pub metered: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: ConnectionPolicy::default(),
            redirect_ipv4: None,
            redirect_ipv6: None,
            unruled: Unruled::default(),
            mark: None,
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
    /// With a gateway, the redirect's target decides for each connection. With a gateway that is
    /// never used, peers count as without a gateway.
    fn from(usage: GatewayUse) -> Self {
        match usage {
            GatewayUse::Never => Self::Peers,
            GatewayUse::Always | GatewayUse::Auto => Self::Bonded,
        }
    }
}

impl CarriedFamilies {
    pub(crate) const fn number(self) -> u32 {
        self.v4 as u32 | (self.v6 as u32) << 1
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

/// About a web page: most connections are small.
const DEFAULT_DEMAND: Bytes = Bytes {
    up: ByteCount::new(2_000),
    down: ByteCount::new(30_000),
};
