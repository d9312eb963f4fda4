//! Numbers and words that stand for reasons and standings, in recordings and before people.

use crate::chunk::Reason;
use crate::governor::{Exclusion, Harm, Standing};
use crate::packet::PacketReason;

impl PacketReason {
    /// Every reason, in the order of their numbers: `reason as usize` is its place here.
    pub const ALL: [Self; 10] = [
        Self::Home,
        Self::Earliest,
        Self::AllGrown,
        Self::Turn,
        Self::NotItsTurn,
        Self::InOrder,
        Self::LeastRtt,
        Self::Redundant,
        Self::QuickerSoon,
        Self::AllBusy,
    ];

    /// The word that stands for it in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Earliest => "earliest",
            Self::AllGrown => "all-grown",
            Self::Turn => "turn",
            Self::NotItsTurn => "not-its-turn",
            Self::InOrder => "in-order",
            Self::LeastRtt => "least-rtt",
            Self::Redundant => "redundant",
            Self::QuickerSoon => "quicker-soon",
            Self::AllBusy => "all-busy",
        }
    }

    /// For people: what goes on as "the packet went there", then "because …".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Home => "the flow was there, and the queue had not grown",
            Self::Earliest => "the packet would arrive there first",
            Self::AllGrown => "all queues had grown, and the packet would arrive there first",
            Self::Turn => "it was its turn",
            Self::NotItsTurn => "it was another link's turn, and that one was busy",
            Self::InOrder => "there it came in order within its burst",
            Self::LeastRtt => "it had the lowest round-trip time of those that were ready",
            Self::Redundant => "two links carried the packet, the first to arrive counts",
            Self::QuickerSoon => "a faster link was about to become free",
            Self::AllBusy => "every link was full",
        }
    }
}

impl Reason {
    /// Every reason, in the order of their numbers: `reason as usize` is its place here.
    pub const ALL: [Self; 11] = [
        Self::Writable,
        Self::Turn,
        Self::LeastRtt,
        Self::AllBusy,
        Self::NotItsTurn,
        Self::Redundant,
        Self::Earliest,
        Self::QuickerSoon,
        Self::WouldBlock,
        Self::Probe,
        Self::NotAllowed,
    ];

    /// The word that stands for it in JSON and in the head of a recording.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Writable => "writable",
            Self::Turn => "turn",
            Self::LeastRtt => "least-rtt",
            Self::AllBusy => "all-busy",
            Self::NotItsTurn => "not-its-turn",
            Self::Redundant => "redundant",
            Self::Earliest => "earliest",
            Self::QuickerSoon => "quicker-soon",
            Self::WouldBlock => "would-block",
            Self::Probe => "probe",
            Self::NotAllowed => "not-allowed",
        }
    }

    /// For people: what goes on as "the chunk went there" or "nothing was sent", then "because …".
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Writable => {
                "its connection could take more, and waiting for another was no better"
            }
            Self::Turn => "it was its turn",
            Self::LeastRtt => "it had the lowest round-trip time of those that were ready",
            Self::AllBusy => "every connection was full",
            Self::NotItsTurn => "it was another link's turn, and that one was busy",
            Self::Redundant => "two links carried the chunk, the first to arrive counts",
            Self::Earliest => "the chunk would arrive there first",
            Self::QuickerSoon => {
                "a faster link was about to become free, and waiting for it was quicker"
            }
            Self::WouldBlock => {
                "the window would have been used up before the chunk had arrived, which would have \
                 stopped the quicker links"
            }
            Self::Probe => "the link was tried, to learn whether it has recovered",
            Self::NotAllowed => "neither the rules nor the governor allowed a link that was ready",
        }
    }
}

impl Standing {
    /// The number that stands for it in recordings.
    pub const fn code(self) -> u8 {
        match self {
            Self::Full => 0,
            Self::Probing(Harm::LowersGoodput) => 1,
            Self::Probing(Harm::RaisesDelay) => 2,
            Self::Excluded(Exclusion::Never) => 3,
            Self::Excluded(Exclusion::Reserve) => 4,
            Self::Excluded(Exclusion::Allowance) => 5,
            Self::Excluded(Exclusion::Signal) => 6,
        }
    }

    /// The standing with this number, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Full,
            1 => Self::Probing(Harm::LowersGoodput),
            2 => Self::Probing(Harm::RaisesDelay),
            3 => Self::Excluded(Exclusion::Never),
            4 => Self::Excluded(Exclusion::Reserve),
            5 => Self::Excluded(Exclusion::Allowance),
            6 => Self::Excluded(Exclusion::Signal),
            _ => return None,
        })
    }

    /// For people: why the link is not used as any other, after "since"; what the user or the
    /// governor says of it.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Full => "nothing kept it from being used",
            Self::Probing(Harm::LowersGoodput) => "the whole was slower with it than without",
            Self::Probing(Harm::RaisesDelay) => {
                "it brought little, and readers waited for it much of the time"
            }
            Self::Excluded(Exclusion::Never) => "the rules say never",
            Self::Excluded(Exclusion::Reserve) => "it is kept in reserve while another link lives",
            Self::Excluded(Exclusion::Allowance) => "its allowance of this month is used up",
            Self::Excluded(Exclusion::Signal) => "its signal faded, and another link lived",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_of_reasons_and_standings_are_their_own() {
        let mut names: Vec<_> = Reason::ALL.iter().map(|reason| reason.name()).collect();
        for (place, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::ALL.len());
        let mut names: Vec<_> = PacketReason::ALL.iter().map(|it| it.name()).collect();
        for (place, reason) in PacketReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PacketReason::ALL.len());
        let standings: Vec<_> = (0..=u8::MAX).filter_map(Standing::from_code).collect();
        for (code, standing) in standings.iter().enumerate() {
            assert_eq!(usize::from(standing.code()), code);
        }
        assert_eq!(standings.len(), 7);
    }
}
