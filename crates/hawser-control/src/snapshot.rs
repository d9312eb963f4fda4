//! The state of a daemon, without its sessions.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, LinkUse, Rate};
use serde::{Deserialize, Serialize};

use crate::all_sessions::AllSessions;
use crate::connections::ConnectionsStatus;
use crate::directory::{DirectoryStatus, RegistrationStatus};
use crate::session_status::SessionStatus;
use crate::signal::{ModemStatus, SignalStatus};
use crate::standby::StandbyStatus;
use crate::words::words;

/// The state of a daemon at one moment.
///
/// Lists are in the order in which the daemon shows them. Some sessions and streams may be missing,
/// and [`encode_response`](crate::encode_response) shortens a snapshot that is too large for one
/// line; totals include everything.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StatusSnapshot {
    /// The daemon's version, such as `0.1.0`.
    pub version: String,
    /// Role in which it was started.
    pub role: Role,
    /// Its process ID.
    pub process_id: u32,
    /// Time since it was started.
    #[serde(rename = "uptime_ms", with = "crate::units::milliseconds")]
    pub uptime: Duration,
    /// Addresses at which it accepts connections of applications or clients.
    pub listen: Vec<SocketAddr>,
    /// Address of its dashboard, if it serves one.
    #[serde(default)]
    pub web: Option<SocketAddr>,
    /// The known links of this machine.
    pub links: Vec<LinkStatus>,
    /// Connections over one link each; `None` if connections go over a gateway.
    #[serde(default)]
    pub connections: Option<ConnectionsStatus>,
    /// The kill switch, if one is on; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_switch: Option<KillSwitchStatus>,
    /// The process from before an upgrade, while it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<PredecessorStatus>,
    /// The directory, if one is served; gateways only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryStatus>,
    /// This host's registration with a directory, if there is one; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<RegistrationStatus>,
    /// Number of sessions, including those that are not listed.
    pub session_count: u64,
    /// All sessions together, in their state a moment ago.
    #[serde(default)]
    pub all_sessions: AllSessions,
    /// The sessions, each with its own far end.
    pub sessions: Vec<SessionStatus>,
    /// Counters since the start, by name: refusals, faults, retries.
    pub counters: BTreeMap<String, u64>,
    /// Memory in use.
    pub memory: MemoryStatus,
}

impl StatusSnapshot {
    /// Returns the number of open streams that are not listed.
    pub fn unlisted_streams(&self) -> u64 {
        let listed: usize = self.sessions.iter().map(|it| it.streams.len()).sum();
        // The list is slightly newer than the total.
        self.all_sessions.stream_count.saturating_sub(listed as u64)
    }
}

/// The process from before an upgrade, which keeps serving open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PredecessorStatus {
    /// Connections of applications, or sessions of clients, that it still serves.
    pub open: u64,
    /// Time until it ends them.
    #[serde(rename = "ends_in_ms", with = "crate::units::milliseconds")]
    pub ends_in: Duration,
}

/// An active kill switch: no traffic leaves this machine past Hawser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KillSwitchStatus {
    /// Since when, in milliseconds since 1970-01-01 00:00 UTC.
    pub since_unix_ms: u64,
    /// Time since then.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
}

/// Role of a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Role {
    /// `hawser up`: takes connections from applications.
    #[default]
    Client,
    /// `hawser serve`: connects to destinations for clients.
    Gateway,
    /// `hawser send`.
    Sender,
    /// `hawser receive`.
    Receiver,
}

/// One network interface of this machine.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The interface's name.
    pub name: String,
    /// The kernel's number for it, which tells links with equal addresses apart.
    pub index: LinkIndex,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// State of the link, from all that the daemon knows of it.
    pub state: LinkState,
    /// Reason for that state, if known.
    pub reason: Option<String>,
    /// Time since when it has this state, in milliseconds since 1970-01-01 00:00 UTC, by the
    /// daemon's clock: of a silent link its last sign of life, else the time when the daemon
    /// noticed the change. `None` if the state is the one at the daemon's start.
    #[serde(default)]
    pub since_unix_ms: Option<u64>,
    /// Time since then.
    #[serde(
        rename = "state_age_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub state_age: Option<Duration>,
    /// The user's rules for it, and its traffic of the month; clients only.
    #[serde(default)]
    pub allowed: Option<LinkAllowed>,
    /// Rank among the usable links, the best has 1; clients only. Links that answer come first;
    /// then rules and signals, rates, and prices decide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Its radio's signal, if known; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalStatus>,
    /// Its modem, if it has a known one; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modem: Option<ModemStatus>,
    /// State of its standby, if it is on standby; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyStatus>,
    /// Its current traffic.
    #[serde(default)]
    pub traffic: LinkTraffic,
}

/// Traffic of this daemon over a link: chunks of its sessions, and connections placed on it.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Current rate of sending over it.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Current rate of receiving over it.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Bytes sent over it since the daemon's start.
    pub sent_bytes: ByteCount,
    /// Bytes received over it, likewise.
    pub received_bytes: ByteCount,
    /// Its current round-trip time, if known.
    #[serde(
        rename = "rtt_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub rtt: Option<Duration>,
    /// Share of segments sent over it lately that were retransmitted, from 0 to 1, if known.
    #[serde(default)]
    pub up_loss: Option<f64>,
    /// Longest current queueing delay, as far as known.
    #[serde(
        rename = "queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub queue: Option<Duration>,
    /// Sum of the congestion windows of its channels; 0 without channels.
    #[serde(default)]
    pub cwnd_bytes: ByteCount,
}

/// The user's rules for a link, and its traffic of the month.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkAllowed {
    /// Use of the link to send.
    pub up: LinkUse,
    /// Use of the link to receive.
    pub down: LinkUse,
    /// The day on which this month began, such as `2026-11-01`.
    pub since: String,
    /// Bytes of records sent since then, without TCP/IP headers.
    pub sent_bytes: ByteCount,
    /// Bytes of records received, likewise.
    pub received_bytes: ByteCount,
    /// Bytes that may go over it in a month, in both directions together.
    pub allowance_bytes: Option<ByteCount>,
    /// Effect of its used-up allowance: `stopped`, `backup` or `continues`.
    pub limit: Option<String>,
    /// Cost of this month's use, with its unit, if it has a price.
    pub cost: Option<String>,
    /// Price of a gigabyte, in the form of [`LinkChange::price`](crate::LinkChange::price); `None`
    /// if it is free.
    #[serde(default)]
    pub price: Option<String>,
    /// Factor by which weighted policies multiply its rate, from 1 to 1000; `None` if not set.
    #[serde(default)]
    pub weight: Option<u64>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkState {
    /// It is usable, as far as known.
    Up,
    /// It was heard before, and gives no sign of life although one is due.
    Silent,
    /// It exists but leads nowhere: it has no default route, is behind a captive portal, or does
    /// not reach the gateway that other links reach.
    #[serde(alias = "no-route")]
    NoInternet,
    /// It has no carrier or no address, or was switched off.
    #[default]
    Down,
    /// It is usable, but the user chose other links.
    Unused,
}

/// Memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// Memory of the whole process, as the kernel counts it.
    #[serde(default)]
    pub resident_bytes: ByteCount,
    /// Held for data of all sessions.
    pub used_bytes: ByteCount,
    /// Limit of that memory, if there is one.
    pub limit_bytes: Option<ByteCount>,
}

words! {
    Role { Client => "client", Gateway => "gateway", Sender => "sender", Receiver => "receiver" }
    LinkState {
        Up => "up",
        Silent => "silent",
        NoInternet => "no-internet",
        Down => "down",
        Unused => "unused",
    }
}
