use serde::{Deserialize, Serialize};

use crate::{LinkState, PathState, SessionState};
use hawser_types::LinkUse;

/// Something that has changed in a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1, without gaps; begins anew with the daemon.
    pub id: u64,
    /// When it was noticed, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock.
    pub at_unix_ms: u64,
    /// What it is.
    #[serde(flatten)]
    pub what: Change,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Change {
    /// A link is there that was not.
    LinkAppeared {
        /// The interface's name.
        link: String,
        /// Whether it can be used.
        state: LinkState,
    },
    /// A link is there no more.
    LinkGone {
        /// The interface's name.
        link: String,
    },
    /// A link can be used now, or no more.
    LinkState {
        /// The interface's name.
        link: String,
        /// What it was.
        from: LinkState,
        /// What it is.
        to: LinkState,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A link answers again, or not, or somebody on it answers in the name of others.
    LinkHealth {
        /// The interface's name.
        link: String,
        /// As [`PlacingStatus::state`](crate::PlacingStatus::state) has it.
        from: String,
        /// What it is now.
        to: String,
    },
    /// The user has said when to use a link.
    LinkUse {
        /// The interface's name.
        link: String,
        /// To send.
        up: LinkUse,
        /// To receive.
        down: LinkUse,
    },
    /// A link's allowance is used up, or a new month has begun.
    Allowance {
        /// The interface's name.
        link: String,
        /// What that means, as [`LinkAllowed::limit`](crate::LinkAllowed::limit) has it; none when
        /// there is some of it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
    },
    /// A session has begun.
    SessionBegan {
        /// Its name.
        session: String,
        /// The far end.
        peer: String,
    },
    /// A session has got further, or lost its last path.
    SessionState {
        /// Its name.
        session: String,
        /// What it was.
        from: SessionState,
        /// What it is.
        to: SessionState,
    },
    /// A session is over.
    SessionEnded {
        /// Its name.
        session: String,
    },
    /// A path can be relied on, or not.
    PathState {
        /// The session's name.
        session: String,
        /// Its link.
        link: String,
        /// What it was.
        from: PathState,
        /// What it is.
        to: PathState,
        /// Why, where there is something to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another policy chooses links.
    Scheduler {
        /// For what.
        of: crate::Scheduled,
        /// Which it was.
        from: String,
        /// Which it is.
        to: String,
    },
    /// The gateway can be reached, or not.
    Gateway {
        /// Whether it can.
        is_up: bool,
    },
    /// Other rules for connections are in force.
    Rules {
        /// How many are the user's.
        count: u64,
        /// The profile in force.
        profile: String,
    },
    /// So many events were forgotten before they were asked for.
    Missed {
        /// How many.
        count: u64,
    },
}
