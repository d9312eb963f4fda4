//! Time of day in the units of the control API.

use std::time::{Duration, SystemTime};

/// Returns the time from 1970-01-01 00:00 UTC to now.
pub(crate) fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Returns whole milliseconds.
pub(super) fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
