use std::time::Duration;

use hawser_types::{LinkUse, StreamId};
use serde::{Deserialize, Serialize};

use crate::{Event, HistoryReport, PolicyStatus, Scheduled, StatusSnapshot, WhyReport};

/// What a daemon can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// What it is doing. Answered with [`Response::Status`]. What is not shown need not be asked
    /// for: it costs the daemon as much as what is.
    Status {
        /// At most so many sessions, the busiest; 64 when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sessions: Option<u64>,
        /// At most so many streams of each of them, the latest; as many as there is room for when
        /// missing. All of them together have room for 500.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        streams: Option<u64>,
    },
    /// Why links were used or not. Answered with [`Response::Why`].
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
        /// So many of the latest of those; some when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        connections: Option<u64>,
    },
    /// For what a session has recorded. Answered with [`Response::Recording`].
    Recording {
        /// The session's name; may be missing where there is only one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Whether it shall name where streams lead.
        #[serde(default)]
        destinations: bool,
        /// How much of it the asker has. With 0 the daemon takes a new copy, which it keeps for as
        /// long as the connection lasts.
        offset: u64,
    },
    /// To end in good order. Answered with [`Response::Stopping`].
    Stop,
    /// What links have carried over the last minutes. Answered with [`Response::History`].
    History {
        /// So many of the latest samples; all when missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        samples: Option<u64>,
    },
    /// What has changed since an event. Answered with [`Response::Events`], at once if something
    /// has.
    Events {
        /// The number of the latest event that is known; 0 for all that are remembered.
        after: u64,
        /// How long to wait for something to change, at most; 25 s are waited whatever is asked,
        /// and not at all when missing.
        #[serde(
            rename = "wait_ms",
            with = "crate::units::milliseconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        wait: Option<Duration>,
    },
    /// How it chooses links. Answered with [`Response::Policy`].
    Policy,
    /// To use a link otherwise; clients only. What is missing stays as it is. Answered with
    /// [`Response::Done`].
    SetLink(LinkChange),
    /// To choose links by another policy; clients only. Answered with [`Response::Done`].
    SetScheduler {
        /// For what.
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
        /// now, that one stays, and the answer is an error. When missing, the number says it all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// It is one that is written down, and is to be removed there.
        #[serde(default)]
        save: bool,
    },
    /// To read the token of its dashboard again, which somebody has replaced. Answered with
    /// [`Response::Done`], also where it serves none.
    ReadToken,
    /// For a new invite; gateways only. Answered with [`Response::Invite`].
    Invite {
        /// How long the invite holds; the daemon's own choice when missing.
        #[serde(
            rename = "ttl_ms",
            with = "crate::units::milliseconds::option",
            default,
            skip_serializing_if = "Option::is_none"
        )]
        ttl: Option<Duration>,
    },
    /// Who is enrolled; gateways only. Answered with [`Response::Peers`].
    Peers,
    /// To forget a peer and end its sessions; gateways only. Answered with [`Response::Revoked`].
    RevokePeer {
        /// The peer's public key as [`PeerStatus::key`] shows it.
        key: String,
    },
}

impl Request {
    /// For what it is doing, without sessions.
    pub const STATUS_WITHOUT_SESSIONS: Self = Self::Status {
        sessions: Some(0),
        streams: Some(0),
    };

    /// For what it is doing, with as many sessions and streams as a daemon tells unasked.
    pub const STATUS: Self = Self::Status {
        sessions: None,
        streams: None,
    };
}

/// What a daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Response {
    /// What it is doing.
    Status(Box<StatusSnapshot>),
    /// Why links were used or not.
    Why(Box<WhyReport>),
    /// A piece of a recording.
    Recording {
        /// The piece in base64, as RFC 4648 §4 has it.
        piece: String,
        /// How much follows after it.
        left_bytes: u64,
    },
    /// It is about to end.
    Stopping,
    /// What links have carried.
    History(Box<HistoryReport>),
    /// What has changed.
    Events {
        /// The events, the oldest first; a [`Change::Missed`](crate::Change::Missed) before them
        /// stands for those that are forgotten.
        events: Vec<Event>,
        /// The number of the latest event there is.
        latest: u64,
    },
    /// How it chooses links.
    Policy(Box<PolicyStatus>),
    /// What was asked is done, and holds from now on.
    Done {
        /// The file it was written to, where it was to be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saved: Option<String>,
    },
    /// A new invite. It carries a secret: show it to the user only.
    Invite {
        /// `hawser://host:port/#…`
        url: String,
        /// How long it holds.
        #[serde(rename = "ttl_ms", with = "crate::units::milliseconds")]
        ttl: Duration,
    },
    /// Who is enrolled.
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
        /// What happened, for people.
        message: String,
    },
}

/// How to use a link from now on; what is missing stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkChange {
    /// The interface's name.
    pub name: String,
    /// When it is used to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<LinkUse>,
    /// When it is used to receive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<LinkUse>,
    /// What weighted policies multiply its rate with, from 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    /// What a gigabyte costs, as the configuration has it: `2.5EUR/GB`; `0` is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    /// How much may go over it in a month, as the configuration has it: `10GB`; `none`: as much as
    /// wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<String>,
    /// To write it to the configuration, too; without, it holds until the daemon ends.
    #[serde(default)]
    pub save: bool,
}

/// Why a request was not done.
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
    /// What the request names does not exist.
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
    /// What it calls itself, if anything.
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
