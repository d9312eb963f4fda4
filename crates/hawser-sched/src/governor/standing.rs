/// Permission to use a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Standing {
    /// Whatever the policy wants.
    #[default]
    Full,
    /// Now and then a chunk, to learn whether it has recovered.
    Probing(Harm),
    /// Nothing.
    Excluded(Exclusion),
}

/// Harm that a link did to the whole before it was demoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Harm {
    /// The whole delivers less with it than without.
    LowersGoodput,
    /// It brings little, and readers wait for it much of the time.
    RaisesDelay,
}

/// Reason for not using a link at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exclusion {
    /// The user said never.
    Never,
    /// It is kept in reserve while another link lives.
    Reserve,
    /// Its allowance of this month is used up.
    Allowance,
    /// Its signal fades.
    Signal,
}
