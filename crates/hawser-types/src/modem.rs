use std::fmt;

use serde::{Deserialize, Serialize};

/// State of a modem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModemState {
    /// It has failed, or the SIM card is missing.
    Failed,
    /// It waits for a PIN.
    Locked,
    /// Its radio is off, or is being turned on or off.
    Off,
    /// It looks for a network, or the network has refused it.
    Searching,
    /// It is known to a network and has no connection.
    Registered,
    /// Its connection is being made or ended.
    Connecting,
    /// It is connected in its own network.
    Connected,
    /// It is connected in a foreign network.
    Roaming,
}

impl ModemState {
    /// Returns the word that stands for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Locked => "locked",
            Self::Off => "off",
            Self::Searching => "searching",
            Self::Registered => "registered",
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Roaming => "roaming",
        }
    }

    /// True if the modem carries data.
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Roaming)
    }

    /// True if a network has taken the modem in. Without one its link carries nothing.
    pub const fn has_network(self) -> bool {
        matches!(self, Self::Registered | Self::Connecting) || self.is_connected()
    }
}

impl fmt::Display for ModemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
