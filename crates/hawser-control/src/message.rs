use std::time::Duration;

use hawser_types::{LinkUse, StreamId};
use serde::{Deserialize, Serialize};

use crate::{Event, HistoryReport, PolicyStatus, Scheduled, StatusSnapshot, WhyReport};

/// Requests to a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// Asks for the daemon's state. Answered with [`Response::Status`]. Ask only for sessions and
    /// streams that are shown: each costs the daemon time.
    Status {
        /// Limit of sessions, the busiest first; 64 if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<u64>,
        /// Limit of streams of each session, the latest first; all that there is room for if
        /// missing. All sessions together have room for 500.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streams: Option<u64>,
    },
    /// Asks why links were used or not. Answered with [`Response::Why`].
    Why {
        /// The session's name; all sessions if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// One stream of the session; all streams together if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<StreamId>,
        /// Number of one connection that was placed by itself; then nothing else is reported.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<u64>,
        /// Number of the latest placed connections to return; a default number if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    /// Asks for the recording of a session. Answered with [`Response::Recording`].
    Recording {
        /// The session's name; may be missing if there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Whether the recording names the destinations of streams.
        #[serde(default)]
        destinations: bool,
        /// Bytes that the client already has. With 0 the daemon takes a new copy, which it keeps
        /// until the connection closes.
        offset: u64,
    },
    /// Ends the daemon in good order. Answered with [`Response::Stopping`].
    Stop,
    /// Starts a new process of the program, which takes over; open connections stay with the old
    /// one until they end. Answered with [`Response::Upgraded`] once the new process serves.
    Upgrade {
        /// Time after which the old process ends open connections; an hour if missing.
        #[serde(
            rename = "limit_ms",
            with = "crate::units::milliseconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        limit: Option<Duration>,
    },
    /// Asks for the links' rates over the last minutes. Answered with [`Response::History`].
    History {
        /// Number of the latest samples to return; all if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
    },
    /// Asks for the changes since an event. Answered with [`Response::Events`], at once if there
    /// are changes.
    Events {
        /// Number of the latest known event; 0 for all remembered events.
        after: u64,
        /// Longest time to wait for a change, at most 25 s; without it, the answer is immediate.
        #[serde(
            rename = "wait_ms",
            with = "crate::units::milliseconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        wait: Option<Duration>,
    },
    /// Asks how the daemon chooses links. Answered with [`Response::Policy`].
    Policy,
    /// Changes the use of a link; clients only. Missing values stay unchanged. Answered with
    /// [`Response::Done`].
    SetLink(LinkChange),
    /// Changes the policy that chooses links; clients only. Answered with [`Response::Done`].
    SetScheduler {
        /// The traffic that the policy is for.
        of: Scheduled,
        /// Name of the policy, as in the configuration.
        scheduler: String,
        /// Whether to save it to the configuration.
        #[serde(default)]
        save: bool,
    },
    /// Changes the use of the gateway; clients only. Answered with [`Response::Done`].
    SetGateway {
        /// `always`, `auto` or `never`.
        usage: String,
        /// Whether to save it to the configuration.
        #[serde(default)]
        save: bool,
    },
    /// Changes the transport of session data; clients only. Answered with [`Response::Done`].
    SetTransport {
        /// `tcp`, `sctp` or `auto`.
        transport: String,
        /// Whether to save it to the configuration.
        #[serde(default)]
        save: bool,
    },
    /// Changes the profile, one of the built-in sets of rules; clients only. Answered with
    /// [`Response::Done`].
    SetProfile {
        /// Name of the profile, as in the configuration.
        profile: String,
        /// Whether to save it to the configuration.
        #[serde(default)]
        save: bool,
    },
    /// Inserts a rule for connections ahead of the others; clients only. Answered with
    /// [`Response::Done`].
    AddRule {
        /// The keys and values of a `[[rule]]` of the configuration, in TOML:
        /// `program = "firefox"`, a line end, `only = "eth0"`.
        rule: String,
        /// Whether to save it, ahead of the other saved rules; otherwise it ends with the daemon.
        #[serde(default)]
        save: bool,
    },
    /// Removes a rule for connections; clients only. Answered with [`Response::Done`].
    RemoveRule {
        /// Its number, as in [`PolicyStatus::rules`](crate::PolicyStatus::rules).
        number: u64,
        /// Its [`RuleStatus::rule`](crate::RuleStatus::rule): if another rule has the number by
        /// now, that one stays, and the answer is an error.
        rule: String,
        /// Whether to remove a saved rule.
        #[serde(default)]
        save: bool,
    },
    /// Makes the daemon read the token of its dashboard again after it was replaced. Answered with
    /// [`Response::Done`], also by a daemon without a dashboard.
    ReadToken,
    /// Asks for a new invite; gateways only. Answered with [`Response::Invite`].
    Invite {
        /// Time for which the invite is valid; the daemon's default if missing.
        #[serde(
            rename = "ttl_ms",
            with = "crate::units::milliseconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        ttl: Option<Duration>,
    },
    /// Asks for the enrolled clients; gateways only. Answered with [`Response::Peers`].
    Peers,
    /// Removes a peer and ends its sessions; gateways only. Answered with [`Response::Revoked`].
    RevokePeer {
        /// The peer's public key as [`PeerStatus::key`] shows it.
        key: String,
    },
}

impl Request {
    /// Asks for the daemon's state without sessions.
    pub const STATUS_WITHOUT_SESSIONS: Self = Self::Status {
        sessions: Some(0),
        streams: Some(0),
    };

    /// Asks for the daemon's state with the default number of sessions and streams.
    pub const STATUS: Self = Self::Status {
        sessions: None,
        streams: None,
    };

    /// True if only the daemon's own user and root may send it: it ends the daemon, hands out a
    /// recording or a secret, or admits or removes clients. All others are allowed to members of
    /// the group `hawser`, and to clients with the token of the dashboard.
    #[must_use]
    pub const fn is_for_owner(&self) -> bool {
        match self {
            Self::Stop
            | Self::Upgrade { .. }
            | Self::Recording { .. }
            | Self::ReadToken
            | Self::Invite { .. }
            | Self::RevokePeer { .. } => true,
            Self::Status { .. }
            | Self::Why { .. }
            | Self::History { .. }
            | Self::Events { .. }
            | Self::Policy
            | Self::Peers
            | Self::SetLink(_)
            | Self::SetScheduler { .. }
            | Self::SetGateway { .. }
            | Self::SetTransport { .. }
            | Self::SetProfile { .. }
            | Self::AddRule { .. }
            | Self::RemoveRule { .. } => false,
        }
    }
}

/// Answers of a daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Response {
    /// The daemon's state.
    Status(Box<StatusSnapshot>),
    /// The reasons why links were used or not.
    Why(Box<WhyReport>),
    /// A piece of a recording.
    Recording {
        /// The piece in base64, as in RFC 4648 §4.
        piece: String,
        /// Bytes that follow this piece.
        left_bytes: u64,
    },
    /// The daemon is about to end.
    Stopping,
    /// Another process serves from now on.
    Upgraded {
        /// Process ID of the new process.
        process_id: u32,
    },
    /// Rates of links.
    History(Box<HistoryReport>),
    /// The changes.
    Events {
        /// The events, the oldest first; a leading [`Change::Missed`](crate::Change::Missed) stands
        /// for forgotten ones.
        events: Vec<Event>,
        /// Number of the latest event.
        latest: u64,
    },
    /// How the daemon chooses links.
    Policy(Box<PolicyStatus>),
    /// The change is made and in force.
    Done {
        /// The file it was saved to, if the request asked for that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<String>,
    },
    /// A new invite. It carries a secret: show it to the user only.
    Invite {
        /// `hawser://host:port/#…`
        url: String,
        /// Time for which it is valid.
        #[serde(rename = "ttl_ms", with = "crate::units::milliseconds")]
        ttl: Duration,
    },
    /// The enrolled clients.
    Peers {
        /// One entry for each key.
        peers: Vec<PeerStatus>,
    },
    /// A peer is forgotten.
    Revoked {
        /// Its public key.
        key: String,
    },
    /// The request was not carried out.
    Error {
        /// The kind of fault, for programs.
        reason: ErrorReason,
        /// The error in words.
        message: String,
    },
}

/// Changes to the use of a link; missing fields stay unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkChange {
    /// The interface's name.
    pub name: String,
    /// Use of the link to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<LinkUse>,
    /// Use of the link to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<LinkUse>,
    /// Factor by which weighted policies multiply its rate, from 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// Price of a gigabyte, as in the configuration: `2.5EUR/GB`; `0` is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// Bytes that may go over it in a month, as in the configuration: `10GB`; `none` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<String>,
    /// Strength of its signal, such as `-80dBm`, instead of the radio's own value; `off` to use the
    /// radio's value again. It is not saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether to save it to the configuration; otherwise it is valid until the daemon ends.
    #[serde(default)]
    pub save: bool,
}

/// Reason why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorReason {
    /// The line was no request of this version of the API.
    Malformed,
    /// A daemon of this role does not support it.
    Unsupported,
    /// It is allowed only over the control socket.
    Forbidden,
    /// The object that the request names does not exist.
    NotFound,
    /// A value in the request is not allowed.
    Invalid,
    /// An internal failure.
    Failed,
}

/// A client that a gateway knows.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its public key.
    pub key: String,
    /// The name that the client gives itself, if any.
    #[serde(default)]
    pub name: Option<String>,
    /// Time since it enrolled.
    #[serde(
        rename = "enrolled_ago_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub enrolled_ago: Option<Duration>,
    /// Time since its last session ended; zero while one is open, `None` if it never had one.
    #[serde(
        rename = "seen_ago_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub seen_ago: Option<Duration>,
    /// Sessions open now.
    pub session_count: u64,
}
