//! What a clock that may be wrong says of something that ends.

use std::time::Duration;

use crate::unix_time::UnixTime;

/// What the clock says of something that counts until some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tense {
    /// It has not ended.
    Counts,
    /// It has ended, and may be forgotten.
    Ended,
    /// The clock is wrong now, or was when it was written. It says nothing and is not forgotten,
    /// unless its room is needed: the clock may be right again soon.
    Doubtful,
}

impl Tense {
    /// Of something that counts until `until`, and for no longer than `longest`. Before the clock
    /// is set, everything counts that has not ended even so.
    pub(super) fn of(until: UnixTime, longest: Duration, now: UnixTime) -> Self {
        if now < until {
            let counts = until <= now + longest || !now.is_set();
            return if counts { Self::Counts } else { Self::Doubtful };
        }
        let is_jump = until.is_set() && now.since(until) > LONGEST_PAUSE;
        if is_jump { Self::Doubtful } else { Self::Ended }
    }
}

/// Longest time that passes between two looks: beyond it, the clock has more likely jumped.
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
            // The clock jumps ahead, or was ahead when this was written.
            (now, year(2099), Tense::Doubtful),
            (year(2099), now, Tense::Doubtful),
            // It is set back, by less than to before this program was made.
            (now + days(31), now, Tense::Doubtful),
            // It is not set, or was not when this was written.
            (now, UnixTime::from_secs(0), Tense::Counts),
            (now, year(1990), Tense::Counts),
            (UnixTime::from_secs(9), UnixTime::from_secs(9), Tense::Ended),
            (UnixTime::from_secs(9), now, Tense::Ended),
        ] {
            assert_eq!(Tense::of(until, longest, at), tense, "{until} at {at}");
        }
    }
}
