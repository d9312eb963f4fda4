use std::fmt;
use std::str::FromStr;

/// The congestion controls that are measured and simulated.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Congestion {
    /// The default of most machines. Source: RFC 9438, Linux `tcp_cubic.c`.
    Cubic,
    /// BBR, version 1, which does not treat loss as congestion. Source: Cardwell et al., ACM Queue
    /// 2016; Linux `tcp_bbr.c`.
    Bbr,
}

impl Congestion {
    /// Both, in the order of tables.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Bbr];

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Congestion {
    type Err = UnknownCongestion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|c| c.name() == text);
        found.ok_or_else(|| UnknownCongestion(text.to_owned()))
    }
}

/// Not the name of a known congestion control.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}`: allowed are cubic and bbr")]
pub struct UnknownCongestion(pub String);
