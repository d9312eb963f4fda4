//! Clients whose sessions are asked for signs of life.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hawser_keys::identity::PublicKey;

/// The clients whose sessions are asked now.
#[derive(Debug, Default)]
pub(super) struct Probing {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
}

/// A client whose sessions are asked now; no more once this is dropped.
#[derive(Debug)]
pub(super) struct Probed {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
    client: PublicKey,
}

impl Probing {
    /// Enters a client, unless its sessions are asked already.
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
