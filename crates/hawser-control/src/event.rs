use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{LinkState, PathState, SessionState};
use hawser_types::{LinkUse, SignalState, SignalStrength, StandbyState};

/// A change in a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Number that counts from 1, without gaps, and restarts with the daemon.
    pub id: u64,
    /// Time at which it was noticed, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's
    /// clock.
    pub at_unix_ms: u64,
    /// The change.
    #[serde(flatten)]
    pub what: Change,
}

/// The kinds of changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Change {
    /// A link appeared.
    LinkAppeared {
        /// The interface's name.
        link: String,
        /// State of the link.
        state: LinkState,
    },
    /// A link disappeared.
    LinkGone {
        /// The interface's name.
        link: String,
    },
    /// A link became usable or unusable.
    LinkState {
        /// The interface's name.
        link: String,
        /// The state before.
        from: LinkState,
        /// The state now.
        to: LinkState,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Same as [`LinkStatus::since_unix_ms`](crate::LinkStatus::since_unix_ms).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
    },
    /// A link's addresses changed.
    LinkAddresses {
        /// The interface's name.
        link: String,
        /// The addresses before.
        from: Vec<IpAddr>,
        /// The addresses now.
        to: Vec<IpAddr>,
    },
    /// A link answers again, or no longer, or another host answers on it in the name of
    /// destinations.
    LinkHealth {
        /// The interface's name.
        link: String,
        /// Same as [`PlacingStatus::state`](crate::PlacingStatus::state).
        from: String,
        /// The state now.
        to: String,
    },
    /// A link's signal fades, so that traffic leaves the link, or is good again.
    LinkSignal {
        /// The interface's name.
        link: String,
        /// The state before.
        from: SignalState,
        /// The state now.
        to: SignalState,
        /// The strength now; `None` when no source reports it any more.
        #[serde(default, rename = "dbm", skip_serializing_if = "Option::is_none")]
        strength: Option<SignalStrength>,
    },
    /// A link on standby was connected or disconnected, or can't be connected.
    LinkStandby {
        /// The interface's name.
        link: String,
        /// The state before; `None` if it was unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<StandbyState>,
        /// The state now.
        to: StandbyState,
        /// Why it can't be connected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The user changed the use of a link.
    LinkUse {
        /// The interface's name.
        link: String,
        /// Use for sending.
        up: LinkUse,
        /// Use for receiving.
        down: LinkUse,
    },
    /// A link's allowance is used up, or a new month has begun.
    Allowance {
        /// The interface's name.
        link: String,
        /// Effect, as in [`LinkAllowed::limit`](crate::LinkAllowed::limit); `None` if some
        /// allowance is left again.
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
    /// A session made progress, or lost its last path that answers.
    SessionState {
        /// Its name.
        session: String,
        /// The state before.
        from: SessionState,
        /// The state now.
        to: SessionState,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Same as [`SessionStatus::since_unix_ms`](crate::SessionStatus::since_unix_ms).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
    },
    /// A session is over.
    SessionEnded {
        /// Its name.
        session: String,
    },
    /// A path became usable or unusable.
    PathState {
        /// The session's name.
        session: String,
        /// Its link.
        link: String,
        /// The state before.
        from: PathState,
        /// The state now.
        to: PathState,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another policy chooses links.
    Scheduler {
        /// The traffic that the policy is for.
        of: crate::Scheduled,
        /// The policy before.
        from: String,
        /// The policy now.
        to: String,
    },
    /// The gateway became unreachable, or reachable again.
    Gateway {
        /// True if it can be reached.
        is_up: bool,
        /// Reason why it can't be reached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Same as
        /// [`GatewayStatus::unreachable_since_unix_ms`](crate::GatewayStatus::unreachable_since_unix_ms).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
    },
    /// Connections to a server that was seen to run Hawser are refused or go without a session, or
    /// are bonded again.
    NotBonded {
        /// Its address and port.
        server: SocketAddr,
        /// The fault; `None` once it is fixed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Connections to a name with a voucher are refused, or go over a session again.
    Vouched {
        /// The name.
        name: String,
        /// Reason why the last one was refused; `None` if it was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// A directory accepted this host's registration, or lost it.
    Registration {
        /// The name.
        name: String,
        /// True if this host is registered.
        is_registered: bool,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The rules for connections changed.
    Rules {
        /// Number of the user's rules.
        count: u64,
        /// The profile in force.
        profile: String,
    },
    /// Events were forgotten before the reader requested them.
    Missed {
        /// Number of forgotten events.
        count: u64,
    },
}
