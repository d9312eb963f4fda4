//! Finds sessions whose client is gone although their connections have not failed yet.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock;
use crate::driver::Driver;
use crate::identity::PublicKey;

/// Asks sessions for a sign of life; returns the first whose client's host gives none in time.
/// `None` as soon as all have answered, or are over.
pub(super) async fn oldest_silent(sessions: &[Driver]) -> Option<&Driver> {
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
        tokio::time::sleep(PATIENCE / LOOKS).await;
    }
    sessions.iter().find(is_silent)
}

/// The clients whose sessions are asked now.
#[derive(Debug, Default)]
pub(super) struct Probing {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
}

/// One of them; no more once this is dropped.
#[derive(Debug)]
pub(super) struct Probed {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
    client: PublicKey,
}

impl Probing {
    /// Enters a client, unless it is there already.
    pub(super) fn begin(&self, client: PublicKey) -> Option<Probed> {
        let clients = Arc::clone(&self.clients);
        lock(&self.clients)
            .insert(client)
            .then_some(Probed { clients, client })
    }
}

impl Drop for Probed {
    fn drop(&mut self) {
        lock(&self.clients).remove(&self.client);
    }
}

fn lock(clients: &Mutex<HashSet<PublicKey>>) -> MutexGuard<'_, HashSet<PublicKey>> {
    clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A round trip of the slowest links, and a retransmission.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOKS: u32 = 40;
