use std::time::Duration;

use hawser_types::{LinkUse, StreamId};
use serde::{Deserialize, Serialize};

use crate::{Event, HistoryReport, PolicyStatus, Scheduled, StatusSnapshot, WhyReport};

/// The requests that a daemon takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// Asks for the daemon's state. Answered with [`Response::Status`]. Sessions and streams that
    /// are not shown need not be asked for: each costs the daemon as much as one that is.
    Status {
        /// At most so many sessions, the busiest; 64 when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<u64>,
        /// At most so many streams of each of them, the latest; as many as there is room for when
        /// missing. All of them together have room for 500.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streams: Option<u64>,
    },
    /// Asks why links were used or not. Answered with [`Response::Why`].
    Why {
        /// The session's name; all sessions when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// One stream of it; all streams together when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stream: Option<StreamId>,
        /// One connection that was placed by itself, by its number, and nothing else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connection: Option<u64>,
        /// Number of the latest placed connections to return; some when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    /// Asks for the recording of a session. Answered with [`Response::Recording`].
    Recording {
        /// The session's name; may be missing where there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// True if it shall name where streams lead.
        #[serde(default)]
        destinations: bool,
        /// Bytes of it that the client has. With 0 the daemon takes a new copy, which it keeps as
        /// long as the connection lasts.
        offset: u64,
    },
    /// To end in good order. Answered with [`Response::Stopping`].
    Stop,
    /// To have a new process of the program take over; what is open stays with this one until it
    /// ends. Answered with [`Response::Upgraded`] once the new process serves.
    Upgrade {
        /// Time after which what is still open ends; an hour when missing.
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
        /// Number of the latest samples to return; all when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
    },
    /// Asks for the changes since an event. Answered with [`Response::Events`], at once if there
    /// are any.
    Events {
        /// The number of the latest event that is known; 0 for all that are remembered.
        after: u64,
        /// Longest time to wait for a change, at most 25 s; without it, the answer comes at once.
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
    /// To use a link otherwise; clients only. What is missing stays as it is. Answered with
    /// [`Response::Done`].
    SetLink(LinkChange),
    /// To choose links by another policy; clients only. Answered with [`Response::Done`].
    SetScheduler {
        /// The traffic that the policy is for.
        of: Scheduled,
        /// The policy's name, as the configuration has it.
        scheduler: String,
        /// To write it to the configuration, too.
        #[serde(default)]
        save: bool,
    },
    /// To use the gateway for other connections; clients only. Answered with [`Response::Done`].
    SetGateway {
        /// `always`, `auto` or `never`.
        usage: String,
        /// To write it to the configuration, too.
        #[serde(default)]
        save: bool,
    },
    /// To let what sessions carry travel over something else; clients only. Answered with
    /// [`Response::Done`].
    SetTransport {
        /// `tcp`, `sctp` or `auto`.
        transport: String,
        /// To write it to the configuration, too.
        #[serde(default)]
        save: bool,
    },
    /// To put another of the sets of rules that come along in force; clients only. Answered with
    /// [`Response::Done`].
    SetProfile {
        /// Its name, as the configuration has it.
        profile: String,
        /// To write it to the configuration, too.
        #[serde(default)]
        save: bool,
    },
    /// To put a rule for connections ahead of the others; clients only. Answered with
    /// [`Response::Done`].
    AddRule {
        /// The keys and values of a `[[rule]]` of the configuration, in TOML:
        /// `program = "firefox"`, a line end, `only = "eth0"`.
        rule: String,
        /// To write it down, ahead of the others there; without, it ends with the daemon.
        #[serde(default)]
        save: bool,
    },
    /// To forget a rule for connections; clients only. Answered with [`Response::Done`].
    RemoveRule {
        /// Its number, as [`PolicyStatus::rules`](crate::PolicyStatus::rules) has it.
        number: u64,
        /// Its [`RuleStatus::rule`](crate::RuleStatus::rule): where another rule has the number by
        /// now, that one stays, and the answer is an error.
        rule: String,
        /// It is one that is written down, and is to be removed there.
        #[serde(default)]
        save: bool,
    },
    /// Makes the daemon read the token of its dashboard again after it was replaced. Answered with
    /// [`Response::Done`], also by a daemon without a dashboard.
    ReadToken,
    /// Asks for a new invite; gateways only. Answered with [`Response::Invite`].
    Invite {
        /// Time for which the invite is valid; the daemon's default when missing.
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
    /// To forget a peer and end its sessions; gateways only. Answered with [`Response::Revoked`].
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

    /// True if only the daemon's own user and root may ask for it: it ends the daemon, hands out a
    /// recording or a secret, or admits or removes clients. Everything else is also for members of
    /// the group `hawser`, and for who has the token of the dashboard.
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

/// The answers of a daemon.
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
        /// The piece in base64, as RFC 4648 §4 has it.
        piece: String,
        /// Bytes that follow after it.
        left_bytes: u64,
    },
    /// It is about to end.
    Stopping,
    /// Another process serves from now on.
    Upgraded {
        /// Its number.
        process_id: u32,
    },
    /// Rates of links.
    History(Box<HistoryReport>),
    /// The changes.
    Events {
        /// The events, the oldest first; a [`Change::Missed`](crate::Change::Missed) before them
        /// stands for those that are forgotten.
        events: Vec<Event>,
        /// The number of the latest event there is.
        latest: u64,
    },
    /// How the daemon chooses links.
    Policy(Box<PolicyStatus>),
    /// The change is made, and is in force from now on.
    Done {
        /// The file it was written to, where it was to be.
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
    /// The request was not done.
    Error {
        /// The kind of fault, for programs.
        reason: ErrorReason,
        /// The error in words.
        message: String,
    },
}

/// The use of a link from now on; missing fields stay as they are.
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
    /// Strength of its signal, such as `-80dBm`, in place of what its radio says; `off` to go by
    /// the radio again. It is not saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// To write it to the configuration, too; without, it holds until the daemon ends.
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
    /// A daemon of this role does not do that.
    Unsupported,
    /// It may not be asked for by this way, but at the control socket.
    Forbidden,
    /// The object that the request names does not exist.
    NotFound,
    /// A value in the request is not among those that are allowed.
    Invalid,
    /// It should have worked.
    Failed,
}

/// A client that a gateway knows.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its public key.
    pub key: String,
    /// The name that it gives itself, if any.
    #[serde(default)]
    pub name: Option<String>,
    /// Time since it enrolled.
    #[serde(
        rename = "enrolled_ago_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub enrolled_ago: Option<Duration>,
    /// Time since its last session ended; zero while one is open, none when it never had one.
    #[serde(
        rename = "seen_ago_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub seen_ago: Option<Duration>,
    /// Sessions open now.
    pub session_count: u64,
}
