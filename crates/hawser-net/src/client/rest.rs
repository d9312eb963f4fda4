//! Asks idle links for a sign of life.

use std::time::Duration;

use crate::driver::Driver;
use crate::ticks::Ticks;

/// Asks until the session ends. The kernel's own keepalive asks later, and reports only the end of
/// a connection.
pub(super) async fn watch(driver: Driver) {
    let mut ticks = Ticks::every(LOOK_EVERY);
    while driver.closed().is_none() {
        ticks.tick().await;
        let is_quiet = driver.with(|session, now| {
            session.probe_at_rest(now, REST, PAUSE);
            session.is_quiet(now, PAUSE)
        });
        if is_quiet {
            ticks.put_off(LOOK_IDLE_EVERY);
        }
    }
}

/// A silent idle link is to be detected within 15 s. Each question costs a metered link some 150
/// bytes.
const REST: Duration = Duration::from_secs(12);
/// Long enough to tell a download that ends from a link that falls silent.
const PAUSE: Duration = Duration::from_millis(400);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_IDLE_EVERY: Duration = Duration::from_secs(1);
