//! Sessions of a gateway that is about to be replaced.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::shared::GatewayState;
use crate::driver::Driver;
use crate::session::SessionHandle;

/// Once the gateway goes away, tells the client so, and ends the session when no stream has been
/// open in it for a while. Returns when the session is over.
pub(super) async fn follow(shared: &GatewayState, driver: &Driver) {
    let mut going_away = shared.going_away.subscribe();
    if going_away.wait_for(|going_away| *going_away).await.is_err() {
        return;
    }
    driver.with(|session, now| session.go_away(now));
    let mut idle_since = Instant::now();
    while idle_since.elapsed() < IDLE && driver.closed().is_none() {
        sleep(LOOK_EVERY).await;
        if driver.has_streams() {
            idle_since = Instant::now();
        }
    }
    driver.close(0);
    SessionHandle::new(driver.clone()).ended().await;
}

/// A client that knows the command to leave has begun another session by then, and ends this one
/// itself. Another client may open a stream at any time; the stream is lost if the session ends
/// just then.
const IDLE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(500);
