//! Takes the associations of sessions, and follows the machine's links.

use std::sync::Arc;
use std::time::Duration;

use hawser_channels::Allowance;
use hawser_types::ChannelId;
use tokio::sync::watch;

use super::shared::GatewayState;
use crate::clock;
use crate::driver::Driver;
use hawser_link::links::Link;

/// Takes the associations of a session for as long as it lives.
pub(super) async fn serve(shared: &GatewayState, driver: &Driver) {
    let Some(associations) = shared.associations.get() else {
        return;
    };
    associations.announce(driver);
    let mut own = associations.of_session();
    let mut allowance = Allowance::default();
    let mut changes = driver.changes();
    while driver.closed().is_none() {
        changes.mark_unchanged();
        let Some(id) = driver.expected() else {
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        };
        if let Err(pause) = allowance.take(clock::now()) {
            // Of associations announced meanwhile, only the last counts.
            tokio::time::sleep(pause).await;
            continue;
        }
        let taken = async {
            tokio::select! {
                taken = own.take(driver, id) => taken,
                () = replaced(driver, id) => Err("the client gave up the association".to_owned()),
                () = tokio::time::sleep(PATIENCE) => {
                    Err("the client did not begin the association in time".to_owned())
                }
            }
        };
        match taken.await {
            Ok(()) => tracing::info!(%id, "association established"),
            Err(problem) => tracing::debug!(%id, %problem, "association was not established"),
        }
        driver.forget_expected(id);
    }
}

/// Waits until `id` is not the association that the client has announced any more.
async fn replaced(driver: &Driver, id: ChannelId) {
    let mut changes = driver.changes();
    while driver.expected() == Some(id) && driver.closed().is_none() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Follows the machine's links for as long as the gateway lives.
pub(super) async fn follow(shared: Arc<GatewayState>, mut links: watch::Receiver<Arc<Vec<Link>>>) {
    loop {
        let now = Arc::clone(&links.borrow_and_update());
        if let Some(associations) = shared.associations.get() {
            associations.follow(&now);
        }
        if links.changed().await.is_err() {
            return;
        }
    }
}

/// Time that a client has to begin an association that it has announced.
const PATIENCE: Duration = Duration::from_secs(60);
