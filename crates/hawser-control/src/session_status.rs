//! A daemon's sessions, their paths, channels and streams.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, PathId, Rate, StreamId};
use serde::{Deserialize, Serialize};

use crate::packet_flow::PacketFlowStatus;
use crate::words::words;

/// Everything between this machine and one far end.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionStatus {
    /// A name to tell sessions apart; not a secret.
    pub id: String,
    /// The far end: its address or the name of its key.
    pub peer: String,
    /// Progress of the session.
    pub state: SessionState,
    /// Reason for that state, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time since when it is interrupted, in milliseconds since 1970-01-01 00:00 UTC, by the
    /// daemon's clock; `None` unless it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_ms: Option<u64>,
    /// True if the far end is the gateway of this client.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_with_gateway: bool,
    /// True if this client has begun another session with the same far end, which was asked for:
    /// streams that were open end here, and others are opened there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left: bool,
    /// Way of large amounts that this end sends to a host that is met at a gateway; `None` of other
    /// sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<SessionRoute>,
    /// The policy that chooses links.
    pub scheduler: String,
    /// True if the gateway places what it sends by that policy too, unless it is `auto`, and false
    /// if the gateway's own policy holds. Unknown at a gateway, and until the gateway has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_follows_scheduler: Option<bool>,
    /// Time since it began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// Rate that leaves now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Rate that arrives now.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Data sent, each byte counted once.
    pub bytes_sent: ByteCount,
    /// Data received, each byte counted once.
    pub bytes_received: ByteCount,
    /// Memory held for its data: what waits to be sent, what was sent and is not acknowledged, and
    /// what came and was not read, with all of the buffers that it lies in.
    pub memory_bytes: ByteCount,
    /// Bytes sent and not acknowledged yet.
    pub unacknowledged_bytes: ByteCount,
    /// Counters since its beginning, by name: chunks sent again, duplicates, lost channels.
    #[serde(default)]
    pub counters: BTreeMap<String, u64>,
    /// Transport of its data.
    #[serde(default)]
    pub transport: TransportStatus,
    /// Its ways to the far end.
    pub paths: Vec<PathStatus>,
    /// Number of open streams, also when not all are listed.
    pub stream_count: u64,
    /// Its streams.
    pub streams: Vec<StreamStatus>,
    /// The policy that chooses links for packets sent here.
    #[serde(default)]
    pub packet_scheduler: String,
    /// Number of flows of packets that have moved something lately, also when not all are listed.
    #[serde(default)]
    pub packet_flow_count: u64,
    /// Its flows of packets, the latest first.
    #[serde(default)]
    pub packet_flows: Vec<PacketFlowStatus>,
}

/// The transports of a session's data.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Transport that its user wants: `tcp`, `sctp` or `auto`.
    pub wanted: String,
    /// Transport of large amounts that this end sends now.
    pub in_use: Transport,
    /// It is tried, to compare it with the other one.
    pub trying: bool,
    /// Reason why there is no association although one is wanted.
    pub problem: Option<String>,
}

/// A transport of data.
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

/// Progress of a session.
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
    /// Every path is lost or silent, and the session waits for one to come back.
    Interrupted,
    /// The remaining data is being delivered.
    Closing,
}

/// Way of a session between two hosts that meet at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SessionRoute {
    /// Through the gateway.
    Relayed,
    /// Past it, over UDP.
    Direct,
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
    /// State of the path.
    pub state: PathState,
    /// Reason for that state, or for getting no data, where one is known.
    pub reason: Option<String>,
    /// Time since its last sign of life, where one is overdue.
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
    /// Data that this end may send by it.
    #[serde(default)]
    pub standing: PathStanding,
    /// Rate that leaves by it now.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Rate that arrives by it now.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Bytes of records sent by it since the session began, repetitions included.
    #[serde(default)]
    pub bytes_sent: ByteCount,
    /// Bytes of records received by it, likewise.
    #[serde(default)]
    pub bytes_received: ByteCount,
    /// Delay that queues add to data sent by it, as the far end sees it; `None` until the far end
    /// has reported.
    #[serde(
        rename = "up_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub up_queue: Option<Duration>,
    /// Delay that queues add to data received by it; `None` until it is known.
    #[serde(
        rename = "down_queue_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub down_queue: Option<Duration>,
    /// Rate at which data arrived by it at the far end, by the far end's latest report.
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

/// Data that may be sent by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PathStanding {
    /// All data, as the policy decides.
    #[default]
    Full,
    /// The same, ahead of other paths.
    Preferred,
    /// A chunk now and then, since it did harm.
    Probing,
    /// No data, because of the user's rules or an allowance.
    Excluded,
}

/// One TCP connection of a session, or what its association does over one link.
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
    /// Rate at which the far end was seen to receive.
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
    /// Transport of the channel; written only when it is not a TCP connection.
    #[serde(default, skip_serializing_if = "Transport::is_tcp")]
    pub transport: Transport,
}

/// Role of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ChannelKind {
    /// Large amounts.
    #[default]
    Bulk,
    /// Small or urgent data.
    Express,
}

/// Progress of a channel.
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
    /// Destination as the application gave it: `example.org:443`. None for streams that end at the
    /// peer.
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
    /// Rate that it sends and receives now.
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
