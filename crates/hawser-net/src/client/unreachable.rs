//! What the log says while a client has no session.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::first::{self, First};
use super::shared::Shared;

/// Makes the first connection of a session. While that takes long, the log says what the client
/// waits for, anew when that has changed; and when the gateway is reached at last.
pub(super) async fn connect(shared: &Arc<Shared>) -> First {
    let begun = Instant::now();
    let mut connecting = pin!(first::connect(shared));
    let (mut look, mut said) = (begun + PATIENCE, None);
    loop {
        tokio::select! {
            first = &mut connecting => {
                if said.is_some() {
                    let after = seconds(begun);
                    tracing::info!(after, "the gateway is reached");
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

/// Most first connections take less.
const PATIENCE: Duration = Duration::from_secs(3);
/// The problem of several links changes with each of their attempts.
const AGAIN: Duration = Duration::from_secs(30);
