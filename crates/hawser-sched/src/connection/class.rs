use std::fmt;
use std::str::FromStr;

/// Kind of a connection.
///
/// Source: DBAS §II.B.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Class {
    /// People hear or see every delay: calls, games, remote desktops.
    RealTime,
    /// People wait for each answer: web pages, shells, name lookups.
    Interactive,
    /// No user waits for a single packet: downloads, backups, updates.
    Bulk,
    /// Not known.
    #[default]
    Unknown,
}

impl Class {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::RealTime, Self::Interactive, Self::Bulk, Self::Unknown];

    /// The word for it in rules and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RealTime => "real-time",
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Class {
    type Err = UnknownClass;

    fn from_str(name: &str) -> Result<Self, UnknownClass> {
        let mut all = Self::ALL.into_iter();
        all.find(|class| class.name() == name)
            .ok_or_else(|| UnknownClass(name.to_owned()))
    }
}

/// No class has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown class `{0}`: allowed are real-time interactive bulk unknown")]
pub struct UnknownClass(String);
