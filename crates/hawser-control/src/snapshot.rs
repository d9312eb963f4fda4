use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, PathId, Rate, StreamId};
use serde::{Deserialize, Serialize};

use crate::all_sessions::AllSessions;
use crate::connections::ConnectionsStatus;

/// What a daemon is doing, at one moment.
///
/// Lists come in the order in which the daemon shows them. Not all sessions and streams need be listed,
/// and a snapshot too large for one line is shortened by [`encode_response`](crate::encode_response); the
/// totals are of all.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StatusSnapshot {
    /// The daemon's version, such as `0.1.0`.
    pub version: String,
    /// What it was started as.
    pub role: Role,
    /// Its process.
    pub process_id: u32,
    /// Time since it was started.
    #[serde(rename = "uptime_ms", with = "crate::units::milliseconds")]
    pub uptime: Duration,
    /// Where it takes connections from applications or clients.
    pub listen: Vec<SocketAddr>,
    /// Where its dashboard is served, if it is.
    #[serde(default)]
    pub web: Option<SocketAddr>,
    /// The links of this machine that it knows.
    pub links: Vec<LinkStatus>,
    /// Connections that each go over one link; none where they go over a gateway.
    #[serde(default)]
    pub connections: Option<ConnectionsStatus>,
    /// How many sessions there are, also when not all are listed.
    pub session_count: u64,
    /// All sessions together, as they were a moment ago.
    #[serde(default)]
    pub all_sessions: AllSessions,
    /// The sessions, each with its own far end.
    pub sessions: Vec<SessionStatus>,
    /// What was counted since the start, by name: refusals, faults, retries.
    pub counters: BTreeMap<String, u64>,
    /// Memory in use.
    pub memory: MemoryStatus,
}

/// What a daemon was started as.
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
    /// Whether it can be used.
    pub state: LinkState,
    /// Why it is in that state, where there is something to say.
    pub reason: Option<String>,
    /// What the user allows on it, and what went over it; clients only.
    #[serde(default)]
    pub allowed: Option<LinkAllowed>,
    /// What moves over it.
    #[serde(default)]
    pub traffic: LinkTraffic,
}

/// What moves over a link on behalf of this daemon: chunks of its sessions, and connections that it has
/// placed there.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// What leaves by it now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// What arrives by it now.
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
    /// The share of segments sent by it lately that had to be sent again, from 0 to 1, where it is known.
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

/// What the user allows on a link, and what has gone over it this month.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LinkAllowed {
    /// When it is used to send.
    pub up: LinkUse,
    /// When it is used to receive.
    pub down: LinkUse,
    /// The day on which this month began, such as `2026-11-01`.
    pub since: String,
    /// Bytes of records sent since then, without TCP/IP headers.
    pub sent_bytes: ByteCount,
    /// Bytes of records received, likewise.
    pub received_bytes: ByteCount,
    /// How much may go over it in a month, both ways together.
    pub allowance_bytes: Option<ByteCount>,
    /// Its allowance is used up, and what that means: `stopped`, `backup` or `continues`.
    pub limit: Option<String>,
    /// What this month's use has cost, with its unit, where it has a price.
    pub cost: Option<String>,
    /// What a gigabyte costs, as [`LinkChange::price`](crate::LinkChange::price) takes it; none where it
    /// is free.
    #[serde(default)]
    pub price: Option<String>,
    /// What weighted policies multiply its rate with, from 1 to 1000; none while nobody has told.
    #[serde(default)]
    pub weight: Option<u64>,
}

/// When a link is used, by the user's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkUse {
    /// Like any other.
    #[default]
    Normal,
    /// Ahead of the others, which get what it cannot take.
    Prefer,
    /// Connected, but without data while another link lives.
    Backup,
    /// Not at all.
    Never,
}

/// Whether a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LinkState {
    /// It can.
    Up,
    /// It has no carrier or was switched off.
    #[default]
    Down,
    /// No route leads through it.
    NoRoute,
    /// It could be used, but the user named others.
    Unused,
}

/// Everything between this machine and one far end.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionStatus {
    /// A name to tell sessions apart; not a secret.
    pub id: String,
    /// The far end: its address or the name of its key.
    pub peer: String,
    /// How far it has come.
    pub state: SessionState,
    /// The policy that chooses links.
    pub scheduler: String,
    /// Time since it began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// What leaves now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// What arrives now.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Data sent, each byte counted once.
    pub bytes_sent: ByteCount,
    /// Data received, each byte counted once.
    pub bytes_received: ByteCount,
    /// Memory held for its data: what was sent and is not acknowledged, and what the far end was
    /// allowed to send beyond each stream's own share.
    pub memory_bytes: ByteCount,
    /// What was sent and is not acknowledged yet.
    pub unacknowledged_bytes: ByteCount,
    /// What was counted since it began, by name: chunks sent again, duplicates, lost channels.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// What its data travels over.
    #[serde(default)]
    pub transport: TransportStatus,
    /// Its ways to the far end.
    pub paths: Vec<PathStatus>,
    /// How many streams are open, also when not all are listed.
    pub stream_count: u64,
    /// Its streams.
    pub streams: Vec<StreamStatus>,
}

/// What the data of a session travels over.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransportStatus {
    /// What its user wants: `tcp`, `sctp` or `auto`.
    pub wanted: String,
    /// What large amounts that this end sends go over now.
    pub in_use: Transport,
    /// It is tried, to compare it with the other one.
    pub trying: bool,
    /// Why there is no association, where one is wanted.
    pub problem: Option<String>,
}

/// What carries data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Transport {
    /// TCP connections.
    #[default]
    Tcp,
    /// An association over UDP.
    Association,
}

impl Transport {
    fn is_tcp(&self) -> bool {
        *self == Self::Tcp
    }
}

/// How far a session has come.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionState {
    /// The handshake goes on.
    #[default]
    Connecting,
    /// Data can move.
    Established,
    /// Every path is lost, and the session waits for one to come back.
    Interrupted,
    /// What is left is being delivered.
    Closing,
}

/// One way to the far end: a link of this machine and an address of the other.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PathStatus {
    /// Its number.
    pub id: PathId,
    /// The name of its link.
    pub link: String,
    /// The kernel's number for its link.
    pub index: LinkIndex,
    /// The address at this end.
    pub address: Option<IpAddr>,
    /// The address at the far end.
    pub remote: Option<SocketAddr>,
    /// Whether it is relied on.
    pub state: PathState,
    /// Why it is in that state, or gets no data, where there is something to say.
    pub reason: Option<String>,
    /// What this end may send by it.
    #[serde(default)]
    pub standing: PathStanding,
    /// What leaves by it now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// What arrives by it now.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Bytes of records sent by it since the session began, repetitions included.
    #[serde(default)]
    pub bytes_sent: ByteCount,
    /// Bytes of records received by it, likewise.
    #[serde(default)]
    pub bytes_received: ByteCount,
    /// What queues add to the delay of what is sent by it, as the far end sees it; `None` until
    /// that has said so.
    #[serde(
        rename = "up_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub up_queue: Option<Duration>,
    /// What queues add to the delay of what comes by it; `None` until it is known.
    #[serde(
        rename = "down_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub down_queue: Option<Duration>,
    /// How fast data came by it at the far end, when that last said so.
    #[serde(
        rename = "arriving_bps",
        with = "crate::units::bits_per_second",
        default
    )]
    pub arriving: Rate,
    /// Paths of a session with the same number share a bottleneck.
    #[serde(default)]
    pub bottleneck: Option<u8>,
    /// Its connections.
    pub channels: Vec<ChannelStatus>,
}

/// Whether a path is relied on.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathState {
    /// Its first connection is being made.
    #[default]
    Connecting,
    /// It is.
    Up,
    /// It is silent where an answer was expected, and gets nothing new.
    Suspect,
    /// It is given up and tried again from time to time.
    Dead,
}

/// What may be sent by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathStanding {
    /// What the policy wants.
    #[default]
    Full,
    /// The same, ahead of other paths.
    Preferred,
    /// A chunk now and then, since it did harm.
    Probing,
    /// Nothing, since the user or an allowance wants it so.
    Excluded,
}

/// One TCP connection of a session, or what its association does over one link.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number.
    pub id: ChannelId,
    /// What it carries.
    pub kind: ChannelKind,
    /// How far it has come.
    pub state: ChannelState,
    /// The kernel's smoothed round-trip time.
    #[serde(
        rename = "rtt_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub rtt: Option<Duration>,
    /// The congestion window.
    pub cwnd_bytes: ByteCount,
    /// What the far end was seen to receive.
    #[serde(rename = "delivery_rate_bps", with = "crate::units::bits_per_second")]
    pub delivery_rate: Rate,
    /// Bytes sent, headers and repetitions of this layer included.
    pub bytes_sent: ByteCount,
    /// Bytes received, likewise.
    pub bytes_received: ByteCount,
    /// TCP segments that the kernel had to send again.
    pub retransmissions: u64,
    /// Bytes sent and not yet acknowledged by the far session.
    pub in_flight_bytes: ByteCount,
    /// The congestion control in use, such as `bbr`.
    pub congestion: String,
    /// What carries it; said only of what is no TCP connection.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
}

/// What a channel carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChannelKind {
    /// Large amounts.
    #[default]
    Bulk,
    /// What is small or urgent.
    Express,
}

/// How far a channel has come.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChannelState {
    /// It is being made or is joining its session.
    #[default]
    Joining,
    /// It carries data.
    Up,
    /// It is silent where an answer was expected.
    Suspect,
    /// It takes nothing new.
    Closing,
    /// It is given up.
    Dead,
}

/// One connection of an application.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its number.
    pub id: StreamId,
    /// Where it leads, as the application asked: `example.org:443`. None for streams that lead
    /// nowhere further.
    pub destination: Option<String>,
    /// Bytes that the application here has sent.
    pub bytes_sent: ByteCount,
    /// Bytes that the application here has received.
    pub bytes_received: ByteCount,
    /// Time since it was opened.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// The program that asked for it, where that is known.
    #[serde(default)]
    pub program: Option<String>,
    /// What it sends and receives now.
    #[serde(rename = "rate_bps", with = "crate::units::bits_per_second", default)]
    pub rate: Rate,
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

macro_rules! words {
    ($($kind:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {$(
        impl $kind {
            /// Every one that is known here.
            pub const ALL: &[Self] = &[$(Self::$variant),+];
        }

        impl fmt::Display for $kind {
            /// The word that stands for it in JSON.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$variant => $word,)+
                })
            }
        }
    )+};
}

words! {
    Role { Client => "client", Gateway => "gateway", Sender => "sender", Receiver => "receiver" }
    LinkState { Up => "up", Down => "down", NoRoute => "no-route", Unused => "unused" }
    SessionState {
        Connecting => "connecting",
        Established => "established",
        Interrupted => "interrupted",
        Closing => "closing",
    }
    PathState { Connecting => "connecting", Up => "up", Suspect => "suspect", Dead => "dead" }
    PathStanding {
        Full => "full",
        Preferred => "preferred",
        Probing => "probing",
        Excluded => "excluded",
    }
    LinkUse { Normal => "normal", Prefer => "prefer", Backup => "backup", Never => "never" }
    ChannelKind { Bulk => "bulk", Express => "express" }
    Transport { Tcp => "tcp", Association => "association" }
    ChannelState {
        Joining => "joining",
        Up => "up",
        Suspect => "suspect",
        Closing => "closing",
        Dead => "dead",
    }
}
