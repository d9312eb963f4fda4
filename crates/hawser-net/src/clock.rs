//! The process's one monotonic clock.

use std::sync::OnceLock;

use hawser_types::Instant;

/// The current time, on the time line that all sessions of the process share.
pub fn now() -> Instant {
    Instant::from_nanos(u64::try_from(origin().elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// Converts an instant to the clock of tokio's timers.
pub(crate) fn to_tokio(instant: Instant) -> tokio::time::Instant {
    tokio::time::Instant::from_std(
        origin() + std::time::Duration::from_nanos(instant.as_nanos().min(FAR)),
    )
}

/// The beginning of the time line, on the clock of tokio's timers.
pub(crate) fn began() -> tokio::time::Instant {
    tokio::time::Instant::from_std(origin())
}

fn origin() -> std::time::Instant {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    // A second before the first call, so that no instant is the origin itself.
    *ORIGIN.get_or_init(|| {
        let now = std::time::Instant::now();
        now.checked_sub(std::time::Duration::from_secs(1))
            .unwrap_or(now)
    })
}

/// A century: no timer is further away.
const FAR: u64 = 3_155_760_000_000_000_000;
