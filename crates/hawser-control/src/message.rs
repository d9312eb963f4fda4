use std::time::Duration;

use hawser_types::StreamId;
use serde::{Deserialize, Serialize};

use crate::{LinkUse, StatusSnapshot, WhyReport};

/// What a daemon can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Request {
    /// What it is doing. Answered with [`Response::Status`].
    Status,
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
    /// To use a link otherwise until it ends; clients only. What is missing stays as it is.
    /// Answered with [`Response::LinkSet`].
    SetLink {
        /// The interface's name.
        name: String,
        /// When it is used to send.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        up: Option<LinkUse>,
        /// When it is used to receive.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        down: Option<LinkUse>,
    },
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
    /// The link is used as was asked from now on.
    LinkSet,
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

/// Why a request was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorReason {
    /// The line was no request of this version of the API.
    Malformed,
    /// A daemon of this role does not do that.
    Unsupported,
    /// What the request names does not exist.
    NotFound,
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
