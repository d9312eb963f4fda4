//! The changes in a daemon so far.

use hawser_control::{EventLog, PolicyStatus, StatusSnapshot};

/// The events of a daemon, and the state after the last of them.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// The state at the last look for changes; `None` before the first look.
    pub(super) last: Option<Picture>,
    /// The latest changes of the daemon's state, as numbered events, up to a limit.
    pub(super) events: EventLog,
}

/// The part of a daemon's state whose changes are events, at one moment.
pub(super) struct Picture {
    /// Links, connections and sessions.
    pub(super) status: StatusSnapshot,
    /// The policy, if there is one.
    pub(super) policy: Option<PolicyStatus>,
}
