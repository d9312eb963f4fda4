use std::fmt;

use hawser_types::StandbyState;
use serde::{Deserialize, Serialize};

/// A link that the user wants connected only while no other link works well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyStatus {
    /// Whether it is connected, and by which party.
    pub state: StandbyState,
    /// Reason why it cannot be connected, or error of the latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `on standby, and cannot be connected: no SIM card`.
impl fmt::Display for StandbyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            StandbyState::Waiting => "on standby",
            StandbyState::Connecting => "being connected, because no other link is well",
            StandbyState::Connected => "connected, because no other link was well",
            StandbyState::ByOthers => "on standby, and connected by others",
            StandbyState::Dismissed => "on standby, and disconnected by hand",
            StandbyState::Unavailable => "on standby, and cannot be connected",
        };
        f.write_str(state)?;
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}
