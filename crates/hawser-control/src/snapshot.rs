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
/// Lists come in the order in which the daemon shows them. Not all sessions and streams need be
/// listed, and a snapshot too large for one line is shortened by
/// [`encode_response`](crate::encode_response); the totals are of all.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StatusSnapshot {
    /// The daemon's version, such as `0.1.0`.
    pub version: String,
    /// Role in which it was started.
    pub role: Role,
    /// Its process.
    pub process_id: u32,
    /// Time since it was started.
    #[serde(rename = "uptime_ms", with = "crate::units::milliseconds")]
    pub uptime: Duration,
    /// Addresses at which it takes connections of applications or clients.
    pub listen: Vec<SocketAddr>,
    /// Address of its dashboard, if it serves one.
    #[serde(default)]
    pub web: Option<SocketAddr>,
    /// The links of this machine that it knows.
    pub links: Vec<LinkStatus>,
    /// Connections that each go over one link; none where they go over a gateway.
    #[serde(default)]
    pub connections: Option<ConnectionsStatus>,
    /// The kill switch, where one is on; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_switch: Option<KillSwitchStatus>,
    /// The process of before an upgrade, for as long as it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predecessor: Option<PredecessorStatus>,
    /// The directory, where one is served; gateways only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryStatus>,
    /// This host's registration with a directory, where there is one; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<RegistrationStatus>,
    /// Number of sessions, also when not all are listed.
    pub session_count: u64,
    /// All sessions together, as they were a moment ago.
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
        // The list is later than the total by a moment.
        self.all_sessions.stream_count.saturating_sub(listed as u64)
    }
}

/// A process of before an upgrade: what was open then goes on there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PredecessorStatus {
    /// Connections of applications, or sessions of clients, that it still serves.
    pub open: u64,
    /// Time after which it ends them.
    #[serde(rename = "ends_in_ms", with = "crate::units::milliseconds")]
    pub ends_in: Duration,
}

/// A kill switch that is on: nothing leaves this machine past Hawser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KillSwitchStatus {
    /// Since when, in milliseconds since 1970-01-01 00:00 UTC.
    pub since_unix_ms: u64,
    /// The same as a span.
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
    /// Reason for that state, where one is known.
    pub reason: Option<String>,
    /// Time since when it is so, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock:
    /// of a silent link that of its last sign of life, else when the daemon noticed the change.
    /// `None` where it was so when the daemon started.
    #[serde(default)]
    pub since_unix_ms: Option<u64>,
    /// The same as a span.
    #[serde(
        rename = "state_age_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub state_age: Option<Duration>,
    /// The user's rules for it, and its traffic of the month; clients only.
    #[serde(default)]
    pub allowed: Option<LinkAllowed>,
    /// Its place among the links that may be used, the best has 1; clients only. Those that answer
    /// come first, then it goes by rules and signals, by rates, and by prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Its radio's signal, where that is known; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalStatus>,
    /// Its modem, where it has one that is known; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modem: Option<ModemStatus>,
    /// What is done with it, if it is on standby; clients only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyStatus>,
    /// Its traffic now.
    #[serde(default)]
    pub traffic: LinkTraffic,
}

/// Traffic of this daemon over a link: chunks of its sessions, and connections that it has placed
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Rate that leaves by it now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Rate that arrives by it now.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Bytes sent by it since the daemon was started.
    pub sent_bytes: ByteCount,
    /// Bytes received by it, likewise.
    pub received_bytes: ByteCount,
    /// Its round-trip time as it is now, where it is known.
    #[serde(
        rename = "rtt_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub rtt: Option<Duration>,
    /// The share of segments sent by it lately that had to be sent again, from 0 to 1, where it is
    /// known.
    #[serde(default)]
    pub up_loss: Option<f64>,
    /// The longest delay that queues add now, as far as it is known.
    #[serde(
        rename = "queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub queue: Option<Duration>,
    /// The congestion windows of its channels together; 0 where there are none.
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
    /// Bytes that may go over it in a month, both ways together.
    pub allowance_bytes: Option<ByteCount>,
    /// Its allowance is used up, and what that means: `stopped`, `backup` or `continues`.
    pub limit: Option<String>,
    /// Cost of this month's use, with its unit, where it has a price.
    pub cost: Option<String>,
    /// Price of a gigabyte, as [`LinkChange::price`](crate::LinkChange::price) takes it; none where
    /// it is free.
    #[serde(default)]
    pub price: Option<String>,
    /// Factor by which weighted policies multiply its rate, from 1 to 1000; none unless it was set.
    #[serde(default)]
    pub weight: Option<u64>,
}

/// State of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkState {
    /// It can be used, as far as is known.
    Up,
    /// It was heard before, and gives no sign of life now although one is due.
    Silent,
    /// It is there, and leads nowhere: it has no default route, a captive portal is in the way, or
    /// the gateway is reached over other links and not over this one.
    #[serde(alias = "no-route")]
    NoInternet,
    /// It has no carrier or no address, or was switched off.
    #[default]
    Down,
    /// It could be used, but the user named others.
    Unused,
}

/// Memory in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryStatus {
    /// The whole process's, as the kernel counts it.
    #[serde(default)]
    pub resident_bytes: ByteCount,
    /// Held for data of all sessions.
    pub used_bytes: ByteCount,
    /// The most that may be used, where there is a bound.
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
