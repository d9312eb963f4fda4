//! Takes the associations of sessions, and follows the machine's links.

use std::sync::Arc;
use std::time::Duration;

use hawser_types::{ChannelId, Instant};
use tokio::sync::watch;

use super::shared::Shared;
use crate::clock;
use crate::driver::Driver;
use crate::links::Link;

/// Takes the associations of a session for as long as it lives.
pub(super) async fn serve(shared: &Shared, driver: &Driver) {
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
            // Of those that are announced meanwhile only the last counts.
            tokio::time::sleep(pause).await;
            continue;
        }
        let taken = async {
            tokio::select! {
                taken = own.take(driver, id) => taken,
                () = replaced(driver, id) => Err("it was given up".to_owned()),
                () = tokio::time::sleep(PATIENCE) => Err("it has not come".to_owned()),
            }
        };
        match taken.await {
            Ok(()) => tracing::info!(session = %driver.id(), %id, "an association stands"),
            Err(problem) => {
                tracing::debug!(session = %driver.id(), %id, %problem, "no association");
            }
        }
        driver.forget_expected(id);
    }
}

/// Waits until the client expects another one, or none.
async fn replaced(driver: &Driver, id: ChannelId) {
    let mut changes = driver.changes();
    while driver.expected() == Some(id) && driver.closed().is_none() {
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Follows the machine's links for as long as the gateway lives.
pub(super) async fn follow(shared: Arc<Shared>, mut links: watch::Receiver<Arc<Vec<Link>>>) {
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

/// A token bucket for the associations of a session: each costs keys, and memory for a while.
///
/// Stored as the time when it is full.
#[derive(Debug, Default)]
struct Allowance {
    full_at: Instant,
}

impl Allowance {
    /// Takes a token.
    ///
    /// # Errors
    /// The time until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + REFILL;
        let latest = now + REFILL * BURST;
        if full_at > latest {
            return Err(full_at.since(latest));
        }
        self.full_at = full_at;
        Ok(())
    }
}

/// Associations that a session may begin in a row.
const BURST: u32 = 8;
/// Time in which it may begin one more.
const REFILL: Duration = Duration::from_secs(3);

/// Time that a client has to begin an association that it has announced.
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn associations_begin_in_a_short_row_and_then_one_at_a_time() {
        let mut allowance = Allowance::default();
        let now = Instant::ZERO + Duration::from_secs(100);
        for _ in 0..BURST {
            assert_eq!(allowance.take(now), Ok(()));
        }
        assert_eq!(allowance.take(now), Err(REFILL));
        assert_eq!(allowance.take(now + REFILL / 2), Err(REFILL / 2));
        assert_eq!(allowance.take(now + REFILL), Ok(()));
        assert_eq!(allowance.take(now + REFILL), Err(REFILL));
        let taken = (0..).take_while(|_| allowance.take(now + REFILL * 1000).is_ok());
        assert_eq!(taken.count(), BURST as usize);
    }
}
