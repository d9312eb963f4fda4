use std::net::IpAddr;
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::{Deserialize, Serialize};

/// The decisions on the latest connections that a daemon placed, and the outcomes.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacedReport {
    /// The connections that were asked for, the latest last.
    pub connections: Vec<PlacedConnection>,
    /// The latest number that was given; numbers begin with 1.
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
    /// The process's name.
    #[serde(default)]
    pub program: Option<String>,
    /// The number of the user who runs it.
    #[serde(default)]
    pub user: Option<u32>,
    /// Destination: the name that was asked for, else the address, and the port.
    pub destination: String,
    /// The address, where one is known or only one was tried.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// Class that it was taken for.
    pub class: String,
    /// Bytes that it was expected to send.
    pub expected_up_bytes: ByteCount,
    /// Bytes that it was expected to receive.
    pub expected_down_bytes: ByteCount,
    /// The policy that chooses links.
    pub scheduler: String,
    /// True if the kernel's program chose, by that policy.
    pub in_kernel: bool,
    /// Reason for the first choice, for programs: the policy's, such as `finishes-first`; or
    /// `only`, `suspect`, `closed`, `resolver`, `vpn`, `route`, `peer`, `gateway`.
    pub why: String,
    /// The same for people: goes on after "since".
    pub meaning: String,
    /// Rules that applied to it.
    pub rules: Vec<PlacedRule>,
    /// The links that it could take, the first choice first, as they were when it was decided.
    pub candidates: Vec<PlacedCandidate>,
    /// Attempts to connect, in order.
    pub tries: Vec<PlacedTry>,
    /// Number of times that the decision was made again because links had changed during the
    /// attempts.
    pub decided_again: u64,
    /// The link that it went over in the end; none where it went over a session.
    #[serde(default)]
    pub link: Option<String>,
    /// `connecting`, `open`, `ended`, `failed`; or `untold`, where it goes as the system has it,
    /// over a session with a peer, or as datagrams over the gateway.
    pub state: String,
    /// Error of a connection that was never established.
    #[serde(default)]
    pub error: Option<String>,
    /// Bytes sent.
    pub bytes_sent: ByteCount,
    /// Bytes received.
    pub bytes_received: ByteCount,
    /// Time for which it was open, until now or its end.
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
    /// Returns whether it goes over a session, which lists it among its streams.
    pub fn is_streamed(&self) -> bool {
        matches!(self.why.as_str(), "gateway" | "peer") && !self.is_over()
    }

    /// Returns whether it has ended, or never came about.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "ended" | "failed")
    }

    /// Returns the link that it used, for people: behind the first choice where that was another
    /// one, or in brackets the route that it took instead of a link.
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
    /// Its number then, as `hawser rule list --builtin` shows it.
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
    /// `equal`; `reserve`, when it had to wait for those before it; `suspect`, when it had not
    /// answered lately.
    pub standing: String,
    /// Rate that was assumed for sending.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// Rate that was assumed for receiving.
    #[serde(rename = "down_bps", with = "crate::units::bits_per_second")]
    pub down: Rate,
    /// Its round-trip time.
    #[serde(
        rename = "latency_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub latency: Option<Duration>,
    /// Connections on it that moved something.
    pub active: u64,
    /// Bytes that they had still to send.
    pub up_bytes: ByteCount,
    /// Bytes that they had still to receive.
    pub down_bytes: ByteCount,
    /// Time at which it would have finished all that and this connection.
    #[serde(rename = "finish_ms", with = "crate::units::milliseconds")]
    pub finish: Duration,
    /// Time at which it would have answered this connection, beside the others on it.
    #[serde(rename = "answer_ms", with = "crate::units::milliseconds")]
    pub answer: Duration,
}

/// One try to connect.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedTry {
    /// The link, or `gateway`; none where it went as the system's routes have it.
    #[serde(default)]
    pub link: Option<String>,
    /// Time from the decision to the attempt.
    #[serde(rename = "after_ms", with = "crate::units::milliseconds")]
    pub after: Duration,
    /// `waiting`, `failed`, `given-up`, `connected`, `untold`.
    pub state: String,
    /// Reason why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// Time that it waited without an answer.
    #[serde(
        rename = "waited_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub waited: Option<Duration>,
}
