use hawser_types::ChannelId;

use crate::PathView;
use crate::chunk::Reason;
use crate::governor::Standing;

/// Meaning of one decision for one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It got the chunk, or a copy.
    Carried,
    /// It was ready, and the chunk would have arrived later there.
    Later,
    /// It was ready, and another was chosen without a comparison of arrivals.
    Other,
    /// The user prefers the one that was chosen.
    LessPreferred,
    /// Its connection was full.
    Busy,
    /// The governor has demoted it.
    Demoted,
    /// The user's rules exclude it.
    Excluded,
    /// It was silent where an answer was due.
    Silent,
    /// It had no connection.
    Gone,
}

impl Verdict {
    /// Every verdict; `verdict as usize` is its index.
    pub const ALL: [Self; 9] = [
        Self::Carried,
        Self::Later,
        Self::Other,
        Self::LessPreferred,
        Self::Busy,
        Self::Demoted,
        Self::Excluded,
        Self::Silent,
        Self::Gone,
    ];

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Later => "later",
            Self::Other => "other",
            Self::LessPreferred => "less-preferred",
            Self::Busy => "busy",
            Self::Demoted => "demoted",
            Self::Excluded => "excluded",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }

    /// Returns the text for people: why the link did not get a chunk.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Carried => "it carried the chunk",
            Self::Later => "the chunk would have arrived later over it",
            Self::Other => "another link that was ready was taken first",
            Self::LessPreferred => "the rules prefer the link that was ready",
            Self::Busy => "its connection was full: it was sending as fast as it could",
            Self::Demoted => "the governor had demoted it",
            Self::Excluded => "the rules excluded it",
            Self::Silent => "it was silent where an answer was due",
            Self::Gone => "it had no connection",
        }
    }

    /// Returns the meaning of a decision for `best` for a channel.
    pub(super) fn of(
        view: &PathView,
        best: &PathView,
        chosen: [ChannelId; 2],
        reason: Reason,
    ) -> Self {
        if view.channel == chosen[0] || view.channel == chosen[1] {
            return Self::Carried;
        }
        match view.standing {
            _ if view.suspect => Self::Silent,
            Standing::Excluded(_) => Self::Excluded,
            Standing::Probing(_) => Self::Demoted,
            Standing::Full if !view.ready => Self::Busy,
            Standing::Full if best.preferred && !view.preferred => Self::LessPreferred,
            Standing::Full => match reason {
                Reason::Earliest | Reason::LeastRtt | Reason::Redundant => Self::Later,
                _ => Self::Other,
            },
        }
    }
}
