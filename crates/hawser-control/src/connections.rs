use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::{Deserialize, Serialize};

/// Connections that each go over one link, as a daemon without a gateway places them.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct ConnectionsStatus {
    /// The policy that chooses links.
    pub scheduler: String,
    /// Connections established so far.
    pub placed: u64,
    /// Established connections over another link than the one that was tried first.
    pub moved_over: u64,
    /// Destinations that answered over no link.
    pub unanswered: u64,
    /// VPNs through which the system routes all traffic of a family, so that connections are left
    /// to them.
    #[serde(default)]
    pub left_to: Vec<String>,
    /// The gateway, if one is enrolled.
    #[serde(default)]
    pub gateway: Option<GatewayStatus>,
    /// Connections established over sessions with their destinations.
    #[serde(default)]
    pub over_peers: u64,
    /// Servers that were seen to run Hawser, but whose connections go without a session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_bonded: Vec<NotBondedStatus>,
    /// Servers that were found to run Hawser, although this machine has not enrolled with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub discovered: Vec<DiscoveredStatus>,
    /// Names that are restricted to the keys in their owners' vouchers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vouched: Vec<VouchedStatus>,
    /// Where handshakes do not ask for Hawser, because the option does not get through; at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<NotAskedStatus>,
    /// The links that connections may be placed on.
    pub links: Vec<PlacingStatus>,
}

/// A server that was found to run Hawser, and with which sessions are opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredStatus {
    /// Its address and port.
    pub server: SocketAddr,
    /// Its key.
    pub key: String,
    /// How it was found: by its `handshake`, or by a `probe`.
    pub by: String,
    /// True if connections go over a session with it now.
    pub is_bonded: bool,
}

/// A name whose connections go over a session with a key from its owner's voucher, or are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VouchedStatus {
    /// The name.
    pub name: String,
    /// TCP ports to which this applies; empty without a voucher, or if the voucher says that the
    /// name has no Hawser.
    pub ports: Vec<u16>,
    /// Time until its voucher expires; `None` without a voucher: then all connections to the name
    /// are refused.
    #[serde(
        rename = "left_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub left: Option<Duration>,
    /// True if a session with it runs.
    pub is_bonded: bool,
    /// Reason why its last connection was refused; `None` if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Reason why its voucher could not be fetched again; `None` without a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

/// A link or destination on which handshakes do not ask for Hawser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAskedStatus {
    /// The link; `None` for connections that are bound to no link.
    pub link: Option<String>,
    /// The destination; `None` for all of them.
    pub destination: Option<IpAddr>,
    /// Time until they ask again.
    #[serde(rename = "left_ms", with = "crate::units::milliseconds")]
    pub left: Duration,
}

/// A server that was seen to run Hawser, but whose connections are refused or go without a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotBondedStatus {
    /// Its address and port.
    pub server: SocketAddr,
    /// The fault.
    pub reason: String,
}

/// Use and state of the gateway.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Use of the gateway where no rule decides: `always`, `auto` or `never`.
    #[serde(rename = "use")]
    pub usage: String,
    /// True if a session with it runs, and answers.
    pub is_up: bool,
    /// Time since when it can't be reached, in milliseconds since 1970-01-01 00:00 UTC, by the
    /// daemon's clock; `None` while it can be reached, and at first until it is missed.
    #[serde(default)]
    pub unreachable_since_unix_ms: Option<u64>,
    /// Reason why it can't be reached.
    #[serde(default)]
    pub reason: Option<String>,
    /// Links of that session that answer, as the choice between links and gateway sees them.
    #[serde(default)]
    pub links: u64,
    /// Connections established over it so far.
    pub placed: u64,
    /// Open connections over it.
    pub open: u64,
    /// Rate at which it was seen to forward data; 0 while unknown.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Rate at which it was seen to return data; 0 while unknown.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Time to connect through it.
    #[serde(
        rename = "latency_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub latency: Option<Duration>,
}

/// State of one link that connections are placed on.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacingStatus {
    /// The interface's name.
    pub name: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// `sound`; `suspect`, if it did not answer where others did; or `portal`, if another host
    /// answers on it in the name of the destination.
    pub state: String,
    /// Time since it is `suspect`, if it is.
    #[serde(
        rename = "silent_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub silent: Option<Duration>,
    /// Time since anything last came over it for a connection.
    #[serde(
        rename = "unheard_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub unheard: Option<Duration>,
    /// Estimated rate that it can send; 0 while unknown.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Estimated rate that it can receive; 0 while unknown.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Confidence in `up_bps`, from 0 to 1.
    pub up_confidence: f64,
    /// Confidence in `down_bps`, from 0 to 1.
    pub down_confidence: f64,
    /// Its current round-trip time.
    #[serde(
        rename = "latency_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub latency: Option<Duration>,
    /// Share of segments sent over it that were retransmitted, from 0 to 1; unknown for the other
    /// direction.
    #[serde(default)]
    pub up_loss: Option<f64>,
    /// Confidence in `up_loss`, from 0 to 1.
    #[serde(default)]
    pub up_loss_confidence: f64,
    /// Open connections on it.
    pub open: u64,
    /// Open connections on it that moved data lately.
    pub active: u64,
    /// Bytes that these are still expected to send.
    pub up_bytes: ByteCount,
    /// Bytes that these are still expected to receive.
    pub down_bytes: ByteCount,
    /// Connections placed on it so far.
    pub placed: u64,
}
