//! Asks links for a sign of life while they are at rest.

use std::time::Duration;

use tokio::time::sleep;

use crate::driver::Driver;

/// Does so until the session ends. The kernel's own keepalive asks later, and tells the end of a
/// connection only.
pub(super) async fn watch(driver: Driver) {
    while driver.closed().is_none() {
        driver.with(|session, now| session.probe_at_rest(now, REST, PAUSE));
        sleep(LOOK_EVERY).await;
    }
}

/// A silent link at rest is to be known within 15 s. Each question costs a metered link some 150
/// bytes.
const REST: Duration = Duration::from_secs(12);
/// A download that ends is told from a link that falls silent.
const PAUSE: Duration = Duration::from_millis(400);
const LOOK_EVERY: Duration = Duration::from_millis(250);
