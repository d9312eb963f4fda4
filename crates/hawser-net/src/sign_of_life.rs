//! Finds sessions whose far end is gone although their connections have not failed yet.

use std::time::Duration;

use hawser_types::Instant;

use crate::clock;
use crate::driver::Driver;

/// Asks sessions for a sign of life; returns the first session whose peer's host gives none within
/// `patience`. Returns `None` as soon as all have answered, or are over.
pub(crate) async fn oldest_silent(sessions: &[Driver], patience: Duration) -> Option<&Driver> {
    let asked = clock::now();
    for session in sessions {
        session.with(|session, now| session.probe(now));
    }
    let is_silent = |driver: &&Driver| {
        driver.closed().is_none() && !driver.with(|session, _| session.was_heard_since(asked))
    };
    for _ in 0..LOOKS {
        if !sessions.iter().any(|driver| is_silent(&driver)) {
            return None;
        }
        tokio::time::sleep(patience / LOOKS).await;
    }
    sessions.iter().find(is_silent)
}

/// Waits until the peer's host has given a sign of life since `since`; returns false if there is
/// none by `until`.
pub(crate) async fn is_heard(session: &Driver, since: Instant, until: Instant) -> bool {
    loop {
        if session.with(|session, _| session.was_heard_since(since)) {
            return true;
        }
        let left = until.since(clock::now());
        if left.is_zero() {
            return false;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

const LOOK: Duration = Duration::from_millis(25);
const LOOKS: u32 = 40;
