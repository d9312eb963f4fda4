/// Verdict of the user's rules on a link now, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// The link is used ahead of others.
    Preferred,
    /// The link is used.
    Allowed,
    /// The link is used while no link lives that is allowed.
    Reserve(LimitedBy),
    /// The link is not used.
    Forbidden(LimitedBy),
}

/// Reason why the rules limit the use of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitedBy {
    /// The user wants it so.
    Choice,
    /// The allowance of this month is used up.
    Allowance,
}

impl Permission {
    /// True if nothing may go over the link as long as this holds.
    pub const fn is_forbidden(self) -> bool {
        matches!(self, Self::Forbidden(_))
    }
}
