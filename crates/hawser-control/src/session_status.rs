//! A daemon's sessions, their paths, channels and streams.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, PathId, Rate, StreamId};
use serde::{Deserialize, Serialize};

use crate::packet_flow::PacketFlowStatus;
use crate::words::words;

/// A session of this machine with one far end.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Name that identifies the session; not a secret.
    pub id: String,
    /// The far end: its address or the name of its key.
    pub peer: String,
    /// Progress of the session.
    pub state: SessionState,
    /// Reason for that state, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time since when it is interrupted, in milliseconds since 1970-01-01 00:00 UTC, by the
    /// daemon's clock; `None` if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_ms: Option<u64>,
    /// True if the far end is the gateway of this client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_with_gateway: bool,
    /// True if this client has opened another session with the same far end on request: open
    /// streams continue and end here, new ones are opened there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left: bool,
    /// Route of large amounts that this end sends to a host that it meets at a gateway; `None` for
    /// other sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<SessionRoute>,
    /// The policy that chooses links.
    pub scheduler: String,
    /// True if the gateway sends by that policy too, unless it is `auto`; false if the gateway
    /// applies its own. Unknown at a gateway, and until the gateway has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_follows_scheduler: Option<bool>,
    /// Time since it began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// Current rate of sending.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Current rate of receiving.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Data sent, each byte counted once.
    pub bytes_sent: ByteCount,
    /// Data received, each byte counted once.
    pub bytes_received: ByteCount,
    /// Memory held for its data: unsent, unacknowledged and unread bytes, with the whole buffers
    /// that hold them.
    pub memory_bytes: ByteCount,
    /// Bytes sent and not acknowledged yet.
    pub unacknowledged_bytes: ByteCount,
    /// Counters since its start, by name: retransmitted chunks, duplicates, lost channels.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Transport of its data.
    #[serde(default)]
    pub transport: TransportStatus,
    /// Its ways to the far end.
    pub paths: Vec<PathStatus>,
    /// Number of open streams, including those that are not listed.
    pub stream_count: u64,
    /// Its streams.
    pub streams: Vec<StreamStatus>,
    /// The policy that chooses links for packets sent here.
    #[serde(default)]
    pub packet_scheduler: String,
    /// Number of flows of packets that moved data lately, including those that are not listed.
    #[serde(default)]
    pub packet_flow_count: u64,
    /// Its flows of packets, the latest first.
    #[serde(default)]
    pub packet_flows: Vec<PacketFlowStatus>,
}

/// The transports of a session's data.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Transport that the user wants: `tcp`, `sctp` or `auto`.
    pub wanted: String,
    /// Transport of large amounts that this end currently sends.
    pub in_use: Transport,
    /// Whether it is on trial, for comparison with the other one.
    pub trying: bool,
    /// Reason why there is no association although one is wanted.
    pub problem: Option<String>,
}

/// A transport of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

/// Progress of a session.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionState {
    /// The handshake is in progress.
    #[default]
    Connecting,
    /// Data can move.
    Established,
    /// Every path is lost or silent, and the session waits for one to recover.
    Interrupted,
    /// The remaining data is being delivered.
    Closing,
}

/// Route of a session between two hosts that meet at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionRoute {
    /// Through the gateway.
    Relayed,
    /// Past the gateway, over UDP.
    Direct,
}

/// One route to the far end: a link of this machine and an address of the far end.
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
    /// State of the path.
    pub state: PathState,
    /// Reason for that state, or for getting no data, if known.
    pub reason: Option<String>,
    /// Time since its last sign of life, if one is overdue.
    #[serde(
        rename = "silent_ms",
        with = "crate::units::milliseconds::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub silent: Option<Duration>,
    /// Time since its last sign of life, whether or not one was due.
    #[serde(
        rename = "unheard_ms",
        with = "crate::units::milliseconds::option",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub unheard: Option<Duration>,
    /// Data that this end may send over it.
    #[serde(default)]
    pub standing: PathStanding,
    /// Current rate of sending over it.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Current rate of receiving over it.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Bytes of records sent over it since the session began, including retransmissions.
    #[serde(default)]
    pub bytes_sent: ByteCount,
    /// Bytes of records received over it, likewise.
    #[serde(default)]
    pub bytes_received: ByteCount,
    /// Queueing delay of data sent over it, as the far end sees it; `None` until the far end has
    /// reported.
    #[serde(
        rename = "up_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub up_queue: Option<Duration>,
    /// Queueing delay of data received over it; `None` until known.
    #[serde(
        rename = "down_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub down_queue: Option<Duration>,
    /// Rate at which its data arrived at the far end, by the far end's latest report.
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

/// State of a path.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathState {
    /// Its first connection is being established.
    #[default]
    Connecting,
    /// A connection is established.
    Up,
    /// It is silent although an answer is due, and gets no new data.
    Suspect,
    /// It is given up, and retried from time to time.
    Dead,
}

/// Data that may be sent over a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathStanding {
    /// All data, as the policy decides.
    #[default]
    Full,
    /// All data, in preference to other paths.
    Preferred,
    /// Single chunks from time to time, because the path did harm.
    Probing,
    /// No data, because of the user's rules or an allowance.
    Excluded,
}

/// One TCP connection of a session, or its association's part on one link.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its number.
    pub id: ChannelId,
    /// Role of the channel.
    pub kind: ChannelKind,
    /// Progress of the channel.
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
    /// Rate of delivery to the far end.
    #[serde(rename = "delivery_rate_bps", with = "crate::units::bits_per_second")]
    pub delivery_rate: Rate,
    /// Bytes sent, including headers and retransmissions of this layer.
    pub bytes_sent: ByteCount,
    /// Bytes received, likewise.
    pub bytes_received: ByteCount,
    /// TCP segments that the kernel retransmitted.
    pub retransmissions: u64,
    /// Bytes sent and not yet acknowledged by the far session.
    pub in_flight_bytes: ByteCount,
    /// The congestion control in use, such as `bbr`.
    pub congestion: String,
    /// Transport of the channel; written only when it is not a TCP connection.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
}

/// Role of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChannelKind {
    /// Carries large amounts.
    #[default]
    Bulk,
    /// Carries small or urgent data.
    Express,
}

/// Progress of a channel.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChannelState {
    /// It is connecting or joining its session.
    #[default]
    Joining,
    /// It carries data.
    Up,
    /// It is silent although an answer is due.
    Suspect,
    /// It accepts no new data.
    Closing,
    /// It is given up.
    Dead,
}

/// One connection of an application.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Its number.
    pub id: StreamId,
    /// Destination as the application gave it: `example.org:443`. `None` for streams that end at
    /// the peer.
    pub destination: Option<String>,
    /// Bytes that the application here has sent.
    pub bytes_sent: ByteCount,
    /// Bytes that the application here has received.
    pub bytes_received: ByteCount,
    /// Time since it was opened.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// Program that opened it, if known.
    #[serde(default)]
    pub program: Option<String>,
    /// Current rate of sending and receiving.
    #[serde(rename = "rate_bps", with = "crate::units::bits_per_second", default)]
    pub rate: Rate,
}

words! {
    SessionState {
        Connecting => "connecting",
        Established => "established",
        Interrupted => "interrupted",
        Closing => "closing",
    }
    SessionRoute { Relayed => "relayed", Direct => "direct" }
    PathState { Connecting => "connecting", Up => "up", Suspect => "suspect", Dead => "dead" }
    PathStanding {
        Full => "full",
        Preferred => "preferred",
        Probing => "probing",
        Excluded => "excluded",
    }
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

impl SessionStatus {
    /// Returns the names of the links that its streams use now.
    pub fn links(&self) -> Vec<&str> {
        let living = self.paths.iter().filter(|path| path.state == PathState::Up);
        living.map(|path| path.link.as_str()).collect()
    }
}
