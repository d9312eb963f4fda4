use std::fmt;

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

/// Whether a link on standby is connected, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StandbyState {
    /// It can be connected and is not.
    Waiting,
    /// The daemon has had it connected, which is not complete.
    Connecting,
    /// The daemon has had it connected.
    Connected,
    /// Others have connected it, so it is left as it is.
    ByOthers,
    /// The user has disconnected it while it was needed, so it is left as it is.
    Dismissed,
    /// It cannot be connected.
    Unavailable,
}

impl StandbyState {
    /// Returns the words for people.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Waiting => "on standby",
            Self::Connecting => "being connected, since no other link is well",
            Self::Connected => "connected, since no other link was well",
            Self::ByOthers => "on standby, and connected by others",
            Self::Dismissed => "on standby, and disconnected by hand",
            Self::Unavailable => "on standby, and cannot be connected",
        }
    }
}

impl fmt::Display for StandbyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = self.reason.as_ref();
        let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
        write!(f, "{}{reason}", self.state.told())
    }
}
