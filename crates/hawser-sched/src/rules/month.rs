/// A day of the Gregorian calendar. Days compare as they follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: i32,
    month: u8,
    day: u8,
}

/// As ISO 8601 has it.
impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { year, month, day } = self;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl Date {
    /// The day, if there is such a one.
    pub const fn new(year: i32, month: u8, day: u8) -> Option<Self> {
        let exists = 1 <= month && month <= 12 && 1 <= day && day <= length(year, month);
        if exists {
            Some(Self { year, month, day })
        } else {
            None
        }
    }

    /// The day that is `days` after 1 January 1970; past the year 9999, the last of that.
    pub const fn after_1970(days: u64) -> Self {
        let (mut year, mut left) = (1970, days);
        while left >= year_length(year) {
            left -= year_length(year);
            year += 1;
            if year > MAX_YEAR {
                return LAST;
            }
        }
        let mut month = 1;
        while left >= length(year, month) as u64 {
            left -= length(year, month) as u64;
            month += 1;
        }
        // Less than a month.
        let day = left as u8 + 1;
        Self { year, month, day }
    }

    /// The year, the month from 1, and the day from 1.
    pub const fn parts(self) -> (i32, u8, u8) {
        (self.year, self.month, self.day)
    }

    /// The first day of the month that this one lies in, where months begin on `reset_day`: the
    /// last `reset_day` that was, or today. A month that is shorter begins on its last day.
    pub fn month_began(self, reset_day: u8) -> Self {
        let this = Self::reset_in(self.year, self.month, reset_day);
        if self >= this {
            this
        } else if self.month > 1 {
            Self::reset_in(self.year, self.month - 1, reset_day)
        } else {
            Self::reset_in(self.year - 1, 12, reset_day)
        }
    }

    /// Tells whether a clock that shows this day can be right: not before this program was made, as
    /// on machines whose clock stands still while they are off.
    pub fn is_set(self) -> bool {
        self >= MADE
    }

    /// Returns the latest day on which the month of an account can have begun, seen from today: a
    /// month ahead, since the clock may be a little behind. An account with a later day was kept
    /// while the clock was wrong. Where today is before this program was made the clock is wrong
    /// now, as on machines that have none of their own: then every day can be right.
    pub fn latest_beginning(self) -> Self {
        if !self.is_set() {
            return LAST;
        }
        match self.month {
            12 => Self::reset_in(self.year + 1, 1, self.day),
            month => Self::reset_in(self.year, month + 1, self.day),
        }
    }

    fn reset_in(year: i32, month: u8, reset_day: u8) -> Self {
        let day = reset_day.clamp(1, length(year, month));
        Self { year, month, day }
    }
}

const fn year_length(year: i32) -> u64 {
    365 + (length(year, 2) - 28) as u64
}

/// Days of a month.
const fn length(year: i32, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

const MAX_YEAR: i32 = 9999;
const LAST: Date = Date {
    year: MAX_YEAR,
    month: 12,
    day: 31,
};
/// A day before this version was made.
const MADE: Date = Date {
    year: 2026,
    month: 1,
    day: 1,
};

#[cfg(test)]
mod tests {
    use super::*;

    const fn date(year: i32, month: u8, day: u8) -> Date {
        Date::new(year, month, day).unwrap()
    }

    #[test]
    fn a_month_begins_on_its_day_or_on_the_last_there_is() {
        for (today, reset_day, began) in [
            (date(2026, 3, 15), 15, date(2026, 3, 15)),
            (date(2026, 3, 14), 15, date(2026, 2, 15)),
            (date(2026, 1, 10), 31, date(2025, 12, 31)),
            (date(2026, 3, 1), 31, date(2026, 2, 28)),
            (date(2028, 2, 29), 30, date(2028, 2, 29)),
            (date(2026, 4, 30), 31, date(2026, 4, 30)),
            (date(2026, 1, 1), 1, date(2026, 1, 1)),
            // Out of range counts as the nearest day.
            (date(2026, 5, 20), 0, date(2026, 5, 1)),
        ] {
            assert_eq!(today.month_began(reset_day), began, "{today:?} {reset_day}");
        }
    }

    #[test]
    fn a_month_of_the_books_begins_a_month_ahead_at_most_unless_the_clock_is_not_set() {
        for (today, latest) in [
            (date(2026, 11, 24), date(2026, 12, 24)),
            (date(2026, 12, 31), date(2027, 1, 31)),
            (date(2027, 1, 31), date(2027, 2, 28)),
            (date(1970, 1, 1), LAST),
            (LAST, date(10_000, 1, 31)),
        ] {
            assert_eq!(today.latest_beginning(), latest, "{today:?}");
        }
    }

    #[test]
    fn days_are_counted_from_1970() {
        for (days, expected) in [
            (0, date(1970, 1, 1)),
            (58, date(1970, 2, 28)),
            (59, date(1970, 3, 1)),
            (11_016, date(2000, 2, 29)),
            (20_778, date(2026, 11, 21)),
            (u64::MAX, date(9999, 12, 31)),
        ] {
            assert_eq!(Date::after_1970(days), expected);
        }
    }

    #[test]
    fn days_that_do_not_exist_are_refused() {
        assert_eq!(Date::new(2026, 2, 29), None);
        assert_eq!(Date::new(2100, 2, 29), None);
        assert!(Date::new(2000, 2, 29).is_some());
        assert_eq!(Date::new(2026, 13, 1), None);
        assert_eq!(Date::new(2026, 4, 31), None);
        assert_eq!(Date::new(2026, 4, 0), None);
        assert_eq!(date(2026, 4, 30).parts(), (2026, 4, 30));
    }
}
