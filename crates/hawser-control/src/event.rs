use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::{LinkState, PathState, SessionState};
use hawser_types::{LinkUse, SignalState, SignalStrength, StandbyState};

/// A change in a daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts from 1, without gaps; begins anew with the daemon.
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
#[non_exhaustive]
pub enum Change {
    /// A link is there that was not.
    LinkAppeared {
        /// The interface's name.
        link: String,
        /// State of the link.
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
        /// The state before.
        from: LinkState,
        /// The state now.
        to: LinkState,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// As [`LinkStatus::since_unix_ms`](crate::LinkStatus::since_unix_ms) has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
    },
    /// A link has other addresses than before.
    LinkAddresses {
        /// The interface's name.
        link: String,
        /// The addresses before.
        from: Vec<IpAddr>,
        /// The addresses now.
        to: Vec<IpAddr>,
    },
    /// A link answers again, or does not, or another host answers on it in the name of
    /// destinations.
    LinkHealth {
        /// The interface's name.
        link: String,
        /// As [`PlacingStatus::state`](crate::PlacingStatus::state) has it.
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
        /// The strength now; none when nobody tells it any more.
        #[serde(default, rename = "dbm", skip_serializing_if = "Option::is_none")]
        strength: Option<SignalStrength>,
    },
    /// A link on standby is connected or disconnected, or can't be.
    LinkStandby {
        /// The interface's name.
        link: String,
        /// The state before; none where it was not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<StandbyState>,
        /// The state now.
        to: StandbyState,
        /// Why it can't be connected.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
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
        /// Effect of that, as in [`LinkAllowed::limit`](crate::LinkAllowed::limit); none when some
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
    /// A session has got further, or lost its last path that answers.
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
        /// As [`SessionStatus::since_unix_ms`](crate::SessionStatus::since_unix_ms) has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
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
    /// The gateway can't be reached, or can again.
    Gateway {
        /// True if it can.
        is_up: bool,
        /// Reason why it can't.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Time since when it can't, as
        /// [`GatewayStatus::unreachable_since_unix_ms`](crate::GatewayStatus::unreachable_since_unix_ms)
        /// has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since_unix_ms: Option<u64>,
    },
    /// Connections to a server are refused or go without a session although it was seen to have
    /// Hawser, or are bonded again.
    NotBonded {
        /// Its address and port.
        server: SocketAddr,
        /// What is amiss; none where nothing is any more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Connections to a name that is held to its voucher are refused, or go over a session again.
    Vouched {
        /// The name.
        name: String,
        /// Reason why the last one was refused; none where it was not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<String>,
    },
    /// A directory has this host's registration, or has it no more.
    Registration {
        /// The name.
        name: String,
        /// True if it has.
        is_registered: bool,
        /// Reason, where one is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Other rules for connections are in force.
    Rules {
        /// Number of the user's rules.
        count: u64,
        /// The profile in force.
        profile: String,
    },
    /// Events were forgotten before they were asked for.
    Missed {
        /// Number of forgotten events.
        count: u64,
    },
}
