/// Verdict on a link now, in one direction: of the user's rules, and of its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// The link is used ahead of others.
    Preferred,
    /// The link is used.
    Allowed,
    /// The link is used while no link of a lower [rank](Self::rank) lives.
    Reserve(LimitedBy),
    /// The link is not used.
    Forbidden(LimitedBy),
}

/// Reason for limits to the use of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitedBy {
    /// The user wants it so.
    Choice,
    /// The allowance of this month is used up.
    Allowance,
    /// Its signal fades: it is about to go.
    Signal,
}

impl Permission {
    /// True if nothing may go over the link as long as this holds.
    pub const fn is_forbidden(self) -> bool {
        matches!(self, Self::Forbidden(_))
    }

    /// Returns the order in which links are taken: lower first. A link that is about to go comes
    /// after those that are kept in reserve.
    pub const fn rank(self) -> u8 {
        match self {
            Self::Preferred => 0,
            Self::Allowed => 1,
            Self::Reserve(LimitedBy::Choice | LimitedBy::Allowance) => 2,
            Self::Reserve(LimitedBy::Signal) => 3,
            Self::Forbidden(_) => 4,
        }
    }

    /// Returns what is left of it while the link's signal fades.
    pub const fn while_fading(self) -> Self {
        match self {
            Self::Forbidden(_) => self,
            _ => Self::Reserve(LimitedBy::Signal),
        }
    }
}
