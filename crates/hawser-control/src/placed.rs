use std::net::IpAddr;
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::{Deserialize, Serialize};

/// Decisions on the latest connections that a daemon placed, and their outcomes.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacedReport {
    /// The requested connections, the latest last.
    pub connections: Vec<PlacedConnection>,
    /// The latest assigned number; numbers start with 1.
    pub latest_id: u64,
}

/// One connection, or flow of datagrams, that was placed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacedConnection {
    /// Its number.
    pub id: u64,
    /// Time at which it was decided, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's
    /// clock.
    pub at_unix_ms: u64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// Name of the process.
    #[serde(default)]
    pub program: Option<String>,
    /// ID of the user who runs it.
    #[serde(default)]
    pub user: Option<u32>,
    /// Destination: the requested name, else the address, and the port.
    pub destination: String,
    /// The address, if it is known or only one was tried.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Class assigned to the connection.
    pub class: String,
    /// Bytes that it was expected to send.
    pub expected_up_bytes: ByteCount,
    /// Bytes that it was expected to receive.
    pub expected_down_bytes: ByteCount,
    /// The policy that chooses links.
    pub scheduler: String,
    /// True if Hawser's program in the kernel chose, by that policy.
    pub in_kernel: bool,
    /// Reason for the first choice, for programs: the policy's, such as `finishes-first`; or
    /// `only`, `suspect`, `closed`, `resolver`, `vpn`, `route`, `peer`, `gateway`.
    pub why: String,
    /// The same for people: goes on after "since".
    pub meaning: String,
    /// Rules that applied to it.
    pub rules: Vec<PlacedRule>,
    /// Links that it could take, the first choice first, in their state at the decision.
    pub candidates: Vec<PlacedCandidate>,
    /// Attempts to connect, in order.
    pub tries: Vec<PlacedTry>,
    /// Number of times that the decision was made again because links had changed during the
    /// attempts.
    pub decided_again: u64,
    /// Link that it finally used; `None` if it went over a session.
    #[serde(default)]
    pub link: Option<String>,
    /// `connecting`, `open`, `ended`, `failed`; or `untold` if it follows the system's routes, uses
    /// a session with a peer, or goes as datagrams over the gateway.
    pub state: String,
    /// Error of a connection that was never established.
    #[serde(default)]
    pub error: Option<String>,
    /// Bytes sent.
    pub bytes_sent: ByteCount,
    /// Bytes received.
    pub bytes_received: ByteCount,
    /// Time for which it was open, until now or until its end.
    #[serde(
        rename = "lasted_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub lasted: Option<Duration>,
    /// Rate at which it sent and received over that time.
    #[serde(rename = "rate_bps", with = "crate::units::bits_per_second")]
    pub rate: Rate,
}

impl PlacedConnection {
    /// Returns whether it uses a session, which lists it among its streams.
    pub fn is_streamed(&self) -> bool {
        matches!(self.why.as_str(), "gateway" | "peer") && !self.is_over()
    }

    /// Returns whether it has ended or failed.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "ended" | "failed")
    }

    /// Returns the link that it used, for people: after the first choice if that was another one,
    /// or in brackets the route that it took instead of a link.
    pub fn over(&self) -> String {
        let first = self.tries.first().and_then(|first| first.link.as_deref());
        match (self.link.as_deref(), first, self.why.as_str()) {
            (Some(link), Some(first), _) if link != first => format!("{first}>{link}"),
            (Some(link), ..) => link.to_owned(),
            (None, _, "peer") => "(session)".to_owned(),
            (None, _, "gateway") => "(gateway)".to_owned(),
            (None, None, "closed") => "(none)".to_owned(),
            (None, None, _) => "(system)".to_owned(),
            (None, Some(first), _) => first.to_owned(),
        }
    }
}

/// The effect of one rule on a connection.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedRule {
    /// `class`, `links`, `avoid` or `mode`.
    pub field: String,
    /// The rule's value.
    pub value: String,
    /// Its number at that time, as in `hawser rule list --builtin`.
    pub number: u64,
    /// `user`, `profile` or `built-in`.
    pub source: String,
    /// Its name, where it has one.
    #[serde(default)]
    pub name: Option<String>,
}

/// The prospects of a link for a connection.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedCandidate {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// `equal`; `reserve` if the links before it had priority; `suspect` if it had not answered
    /// lately.
    pub standing: String,
    /// Assumed rate for sending.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Assumed rate for receiving.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Its round-trip time.
    #[serde(
        rename = "latency_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub latency: Option<Duration>,
    /// Connections on it that moved data.
    pub active: u64,
    /// Bytes that these still had to send.
    pub up_bytes: ByteCount,
    /// Bytes that these still had to receive.
    pub down_bytes: ByteCount,
    /// Time at which it would have finished these and this connection.
    #[serde(rename = "finish_ms", with = "crate::units::milliseconds")]
    pub finish: Duration,
    /// Time at which this connection would have been answered, beside the others on the link.
    #[serde(rename = "answer_ms", with = "crate::units::milliseconds")]
    pub answer: Duration,
}

/// One attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedTry {
    /// The link, or `gateway`; `None` if the system's routes applied.
    #[serde(default)]
    pub link: Option<String>,
    /// Time from the decision to the attempt.
    #[serde(rename = "after_ms", with = "crate::units::milliseconds")]
    pub after: Duration,
    /// `waiting`, `failed`, `given-up`, `connected`, `untold`.
    pub state: String,
    /// Reason of the failure.
    #[serde(default)]
    pub error: Option<String>,
    /// Time for which it waited without an answer.
    #[serde(
        rename = "waited_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub waited: Option<Duration>,
}

impl PlacedConnection {
    /// Returns whether it is open or connecting, and no session lists it among its streams.
    pub fn is_open_by_itself(&self) -> bool {
        matches!(self.state.as_str(), "open" | "connecting") && !self.is_streamed()
    }
}
