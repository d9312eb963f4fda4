use std::fmt;

use hawser_types::LinkIndex;

use super::{ConnectionPolicy, Demand, LinkView};

/// Place that a connection goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The link.
    pub link: LinkIndex,
    /// Reason for this one.
    pub reason: Reason,
}

/// Reason for choosing a link for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It is the fastest, whatever it carries.
    Fastest,
    /// It was its turn.
    Turn,
    /// Everything that is open, and this, is finished soonest.
    FinishesFirst,
    /// It answers soonest as it is loaded now.
    AnswersFirst,
}

/// A policy for connections.
///
/// `links` holds the links that the connection may take, in ascending order of their index; what
/// the user's rules forbid, or what is known to be dead, is left out before. A policy keeps its own
/// state (whose turn it is) and reads everything else from the view.
pub trait ConnectionScheduler: fmt::Debug + Send {
    /// Which link the connection takes; `None` when there is none.
    fn select(&mut self, demand: &Demand, links: &[LinkView]) -> Option<Choice>;

    /// Which policy this is.
    fn policy(&self) -> ConnectionPolicy;
}

impl Reason {
    /// For programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fastest => "fastest",
            Self::Turn => "turn",
            Self::FinishesFirst => "finishes-first",
            Self::AnswersFirst => "answers-first",
        }
    }

    /// For people, after "since".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Fastest => "it is the fastest",
            Self::Turn => "it was its turn",
            Self::FinishesFirst => "all open connections finish soonest that way",
            Self::AnswersFirst => "it answers soonest under its present load",
        }
    }
}
