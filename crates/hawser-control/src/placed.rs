use std::net::IpAddr;
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};
use serde::{Deserialize, Serialize};

/// What was decided of the latest connections that a daemon placed, and what became of them.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacedReport {
    /// Those that were asked for, the latest last.
    pub connections: Vec<PlacedConnection>,
    /// The latest number that was given; numbers begin with 1.
    pub latest_id: u64,
}

/// One connection, or flow of datagrams, that was placed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct PlacedConnection {
    /// Its number.
    pub id: u64,
    /// When it was decided, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock.
    pub at_unix_ms: u64,
    /// `tcp` or `udp`.
    pub protocol: String,
    /// The process's name.
    #[serde(default)]
    pub program: Option<String>,
    /// The number of the user who runs it.
    #[serde(default)]
    pub user: Option<u32>,
    /// Where it goes: the name that was asked for, else the address, and the port.
    pub destination: String,
    /// The address, where one is known or only one was tried.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// What it was taken for.
    pub class: String,
    /// What it was expected to send.
    pub expected_up_bytes: ByteCount,
    /// What it was expected to receive.
    pub expected_down_bytes: ByteCount,
    /// The policy that chooses links.
    pub scheduler: String,
    /// Whether the kernel's program chose, by that policy.
    pub in_kernel: bool,
    /// Why it went where it went first, for programs: the policy's reason, such as
    /// `finishes-first`; or `only`, `suspect`, `closed`, `resolver`, `vpn`, `route`, `peer`,
    /// `gateway`.
    pub why: String,
    /// The same for people: goes on after "since".
    pub meaning: String,
    /// What the rules said of it.
    pub rules: Vec<PlacedRule>,
    /// The links that it could take, the first choice first, as they were when it was decided.
    pub candidates: Vec<PlacedCandidate>,
    /// What was tried, in this order.
    pub tries: Vec<PlacedTry>,
    /// How often it was decided anew, since links had changed while it was being made.
    pub decided_again: u64,
    /// The link that it went over in the end; none where it went over a session.
    #[serde(default)]
    pub link: Option<String>,
    /// `connecting`, `open`, `ended`, `failed`; or `untold`, where it goes as the system has it,
    /// over a session with a peer, or as datagrams over the gateway.
    pub state: String,
    /// Why it never came about.
    #[serde(default)]
    pub error: Option<String>,
    /// What it has sent.
    pub bytes_sent: ByteCount,
    /// What it has received.
    pub bytes_received: ByteCount,
    /// For how long it was open, until now or its end.
    #[serde(
        rename = "lasted_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub lasted: Option<Duration>,
    /// What it has sent and received over that time.
    #[serde(rename = "rate_bps", with = "crate::units::bits_per_second")]
    pub rate: Rate,
}

impl PlacedConnection {
    /// Whether it goes over a session, which lists it among its streams.
    pub fn is_streamed(&self) -> bool {
        matches!(self.why.as_str(), "gateway" | "peer") && !self.is_over()
    }

    /// Whether it has ended, or never came about.
    pub fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "ended" | "failed")
    }

    /// What it went over, for people: the link, with the first choice before it where that was
    /// another, or in brackets what it went over instead of a link.
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

/// What one rule said of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedRule {
    /// `class`, `links`, `avoid` or `mode`.
    pub field: String,
    /// What it said.
    pub value: String,
    /// Its number then, as `hawser rule list --builtin` shows it.
    pub number: u64,
    /// `user`, `profile` or `built-in`.
    pub source: String,
    /// Its name, where it has one.
    #[serde(default)]
    pub name: Option<String>,
}

/// What a link promised a connection.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedCandidate {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// `equal`; `reserve`, when it had to wait for those before it; `suspect`, when it had not
    /// answered lately.
    pub standing: String,
    /// What it counted for to send.
    #[serde(rename = "up_bps", with = "crate::units::bits_per_second")]
    pub up: Rate,
    /// What it counted for to receive.
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
    /// What they had still to send.
    pub up_bytes: ByteCount,
    /// What they had still to receive.
    pub down_bytes: ByteCount,
    /// When it would have finished all that and this connection.
    #[serde(rename = "finish_ms", with = "crate::units::milliseconds")]
    pub finish: Duration,
    /// When it would have answered this connection, beside the others on it.
    #[serde(rename = "answer_ms", with = "crate::units::milliseconds")]
    pub answer: Duration,
}

/// One try to connect.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlacedTry {
    /// The link, or `gateway`; none where it went as the system's routes have it.
    #[serde(default)]
    pub link: Option<String>,
    /// How long after the decision.
    #[serde(rename = "after_ms", with = "crate::units::milliseconds")]
    pub after: Duration,
    /// `waiting`, `failed`, `given-up`, `connected`, `untold`.
    pub state: String,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// For how long it waited in vain.
    #[serde(
        rename = "waited_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub waited: Option<Duration>,
}
