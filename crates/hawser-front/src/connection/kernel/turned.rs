//! Connections that go over sessions with their servers, so that the kernel places them on no link.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::process::{Process, is_outermost};
use hawser_capture::{Capture, CaptureError, Connection};

use crate::connection::Origin;

/// Servers with which this host has sessions of its own.
pub trait BondedServers: Send + Sync {
    /// The addresses and ports to which connections go over such a session now.
    fn bonded(&self) -> Vec<SocketAddr>;

    /// A connection of `origin` to `at` was placed on a link, any of which the rules in the kernel
    /// had left to it.
    fn note_placed(&self, at: SocketAddr, origin: &Origin);
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

    /// Tells of a connection that might have gone over a session: one that goes straight, by TCP,
    /// and over any link.
    pub(super) fn note_placed(&self, connection: &Connection) {
        if connection.link.is_none() || connection.udp || connection.has_named_links() {
            return;
        }
        // The kernel's number, which is the process's own where it has no other one.
        let process = is_outermost().then_some(connection.process);
        let origin = Origin {
            program: Some(connection.program.clone()),
            user: Some(connection.user),
            dscp: Some(connection.dscp),
            ..Process::read(process, connection.user).into()
        };
        self.servers.note_placed(connection.remote, &origin);
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
