//! Wall-clock time, for values that must mean the same after a restart and on another machine.

use std::fmt;
use std::ops::Add;
use std::time::{Duration, SystemTime};

use hawser_sched::rules::Date;
use serde::{Deserialize, Serialize};

/// Whole seconds since 1970-01-01 00:00 UTC.
///
/// Only for dates in files and invites; spans and timers use [`hawser_types::Instant`], which clock
/// corrections do not change.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixTime(u64);

impl UnixTime {
    /// Makes the time `seconds` after 1970-01-01 00:00 UTC.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the seconds since 1970-01-01 00:00 UTC.
    pub const fn as_secs(self) -> u64 {
        self.0
    }

    /// Returns the time of this machine's clock; a clock set before 1970 reads as 1970.
    pub fn now() -> Self {
        Self(
            SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
        )
    }

    /// Returns false for a time before this program was made: the clock is not set yet.
    pub fn is_set(self) -> bool {
        Date::after_1970(self.0 / 86_400).is_set()
    }

    /// Returns the span from `earlier` to `self`, zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for UnixTime {
    type Output = Self;

    /// Adds the whole seconds of `span`; saturates.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_secs()))
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
