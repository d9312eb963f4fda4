use serde::{Deserialize, Serialize};

/// Whether a link is connected that the user wants only while no other is well, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StandbyState {
    /// It can be connected and is not.
    Waiting,
    /// Hawser has had it connected, which is not complete.
    Connecting,
    /// Hawser has had it connected.
    Connected,
    /// Others have connected it, so it is left as it is.
    ByOthers,
    /// The user has disconnected it while it was needed, so it is left as it is.
    Dismissed,
    /// It cannot be connected.
    Unavailable,
}
