//! Validity of an entry with an end time, judged by a clock that may be wrong.

use std::time::Duration;

use crate::unix_time::UnixTime;

/// Validity of an entry, by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    /// The entry is valid.
    Counts,
    /// The entry has ended, and may be removed.
    Ended,
    /// The clock is wrong now, or was when the entry was written. The entry is ignored, but kept
    /// unless its room is needed: the clock may be right again soon.
    Doubtful,
}

impl Tense {
    /// Judges an entry that is valid until `until`, and for no longer than `longest`. While the
    /// clock is not set, an entry is valid if its end is later than the clock.
    pub(super) fn of(until: UnixTime, longest: Duration, now: UnixTime) -> Self {
        if now < until {
            let counts = until <= now + longest || !now.is_set();
            return if counts { Self::Counts } else { Self::Doubtful };
        }
        let is_jump = until.is_set() && now.since(until) > LONGEST_PAUSE;
        if is_jump { Self::Doubtful } else { Self::Ended }
    }
}

/// Longest time between two reads: beyond it, the clock has more likely jumped.
const LONGEST_PAUSE: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_wrong_ends_nothing() {
        const DAY: u64 = 86_400;
        let longest = Duration::from_secs(30 * DAY);
        let year = |n: u64| UnixTime::from_secs((n - 1970) * 365 * DAY + (n - 1970) / 4 * DAY);
        let days = |n: u64| Duration::from_secs(n * DAY);
        let now = year(2027);
        for (until, at, tense) in [
            (now + days(7), now, Tense::Counts),
            (now + days(30), now, Tense::Counts),
            (now, now, Tense::Ended),
            (now, now + days(366), Tense::Ended),
            // The clock jumps ahead, or was ahead when the entry was written.
            (now, year(2099), Tense::Doubtful),
            (year(2099), now, Tense::Doubtful),
            // The clock is set back, but not to before this program was made.
            (now + days(31), now, Tense::Doubtful),
            // The clock is not set, or was not when the entry was written.
            (now, UnixTime::from_secs(0), Tense::Counts),
            (now, year(1990), Tense::Counts),
            (UnixTime::from_secs(9), UnixTime::from_secs(9), Tense::Ended),
            (UnixTime::from_secs(9), now, Tense::Ended),
        ] {
            assert_eq!(Tense::of(until, longest, at), tense, "{until} at {at}");
        }
    }
}
