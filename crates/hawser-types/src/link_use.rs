use std::fmt;

use serde::{Deserialize, Serialize};

/// The user's wish for a link in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkUse {
    /// The link is used like any other.
    #[default]
    Normal,
    /// The link is used ahead of the others, which get what it cannot take.
    Prefer,
    /// The link stays connected, and is used only while no other link lives.
    Backup,
    /// The link is not used.
    Never,
}

impl LinkUse {
    /// All values, in the order in which they are listed to users.
    pub const ALL: &'static [Self] = &[Self::Normal, Self::Prefer, Self::Backup, Self::Never];

    /// Returns the name in configurations, commands and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Prefer => "prefer",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }
}

impl fmt::Display for LinkUse {
    /// Writes the name, as in [`Self::name`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
