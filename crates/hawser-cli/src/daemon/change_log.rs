//! The changes in a daemon so far.

use hawser_control::{EventLog, PolicyStatus, StatusSnapshot};

/// The events of a daemon, and the state up to which they tell.
#[derive(Default)]
pub(super) struct ChangeLog {
    /// The state that was compared last; none at first.
    pub(super) last: Option<Picture>,
    /// Every change that was found, up to a bound.
    pub(super) events: EventLog,
}

/// The state of a daemon at one moment, as far as changes of it are events.
pub(super) struct Picture {
    /// Links, connections and sessions.
    pub(super) status: StatusSnapshot,
    /// The policy, where there is one.
    pub(super) policy: Option<PolicyStatus>,
}
