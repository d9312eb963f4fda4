//! Asks links for a sign of life while they are at rest.

use std::time::Duration;

use crate::driver::Driver;
use crate::ticks::Ticks;

/// Does so until the session ends. The kernel's own keepalive asks later, and tells the end of a
/// connection only.
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

/// A silent link at rest is to be known within 15 s. Each question costs a metered link some 150
/// bytes.
const REST: Duration = Duration::from_secs(12);
/// A download that ends is told from a link that falls silent.
const PAUSE: Duration = Duration::from_millis(400);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_IDLE_EVERY: Duration = Duration::from_secs(1);
