//! Clients whose sessions are asked for signs of life.

use std::collections::HashSet;
use std::sync::Arc;

use hawser_keys::identity::PublicKey;
use parking_lot::Mutex;

/// The clients whose sessions are asked for a sign of life now.
#[derive(Debug, Default)]
pub(super) struct Probing {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
}

/// A client whose sessions are asked for a sign of life, until this is dropped.
#[derive(Debug)]
pub(super) struct Probed {
    clients: Arc<Mutex<HashSet<PublicKey>>>,
    client: PublicKey,
}

impl Probing {
    /// Enters a client, unless its sessions are asked already.
    pub(super) fn begin(&self, client: PublicKey) -> Option<Probed> {
        let clients = Arc::clone(&self.clients);
        self.clients
            .lock()
            .insert(client)
            .then_some(Probed { clients, client })
    }
}

impl Drop for Probed {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client);
    }
}
