//! Log lines while a client has no session.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::first::{self, First};
use super::shared::ClientState;

/// Makes the first connection of a session. If that takes long, logs what the client waits for,
/// again after a change; and logs when the gateway is reached.
pub(super) async fn connect(shared: &Arc<ClientState>) -> First {
    let begun = Instant::now();
    let mut connecting = pin!(first::connect(shared));
    let (mut look, mut said) = (begun + PATIENCE, None);
    loop {
        tokio::select! {
            first = &mut connecting => {
                if said.is_some() {
                    let waited = seconds(begun);
                    tracing::info!(waited, "connected to the gateway");
                }
                return first;
            }
            () = sleep_until(look) => look = Instant::now() + AGAIN,
        }
        let problem = shared.problem();
        if said.as_ref() != Some(&problem) {
            tracing::warn!(%problem, since = seconds(begun), "the gateway can't be reached");
            said = Some(problem);
        }
    }
}

/// Whole seconds since then, such as `4s`.
fn seconds(begun: Instant) -> String {
    format!("{}s", begun.elapsed().as_secs())
}

/// Most first connections take less time.
const PATIENCE: Duration = Duration::from_secs(3);
/// Not shorter, since the problem of several links changes with each of their attempts.
const AGAIN: Duration = Duration::from_secs(30);
