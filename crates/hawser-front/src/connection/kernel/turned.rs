//! Connections that go over sessions with their servers, so that the kernel places them on no link.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::{Capture, CaptureError};

/// Servers with which this host has sessions of its own.
pub trait BondedServers: Send + Sync {
    /// The addresses and ports to which connections go over such a session now.
    fn bonded(&self) -> Vec<SocketAddr>;

    /// A connection to `at` was placed on a link.
    fn note_placed(&self, at: SocketAddr);
}

/// Has the kernel's program turn connections to such servers to this process.
pub(super) struct Turned {
    servers: Arc<dyn BondedServers>,
    /// As the kernel knows them.
    known: BTreeSet<SocketAddr>,
}

impl Turned {
    pub(super) fn new(servers: Arc<dyn BondedServers>) -> Self {
        Self {
            servers,
            known: BTreeSet::new(),
        }
    }

    pub(super) fn note_placed(&self, at: SocketAddr) {
        self.servers.note_placed(at);
    }

    /// Tells the kernel's program, where something has changed.
    pub(super) fn refresh(&mut self, capture: &mut Capture) -> Result<(), CaptureError> {
        let bonded: BTreeSet<SocketAddr> = self.servers.bonded().into_iter().collect();
        if bonded != self.known {
            let list: Vec<SocketAddr> = bonded.iter().copied().collect();
            capture.set_peers(&list)?;
            self.known = bonded;
        }
        Ok(())
    }
}

impl fmt::Debug for Turned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = &self.known;
        f.debug_struct("Turned").field("known", known).finish()
    }
}
