use std::fmt;

use hawser_types::StandbyState;
use serde::{Deserialize, Serialize};

/// A link that the user wants to be connected only while no other is well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyStatus {
    /// Whether it is connected, and by whom.
    pub state: StandbyState,
    /// Why it cannot be connected, or what the latest attempt has failed by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl fmt::Display for StandbyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&told(self.state, self.reason.as_deref()))
    }
}

/// Says how a link on standby is: `on standby, and cannot be connected: no SIM card`.
pub(crate) fn told(state: StandbyState, reason: Option<&str>) -> String {
    let state = match state {
        StandbyState::Waiting => "on standby",
        StandbyState::Connecting => "being connected, because no other link is well",
        StandbyState::Connected => "connected, because no other link was well",
        StandbyState::ByOthers => "on standby, and connected by others",
        StandbyState::Dismissed => "on standby, and disconnected by hand",
        StandbyState::Unavailable => "on standby, and cannot be connected",
    };
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{state}{reason}")
}
