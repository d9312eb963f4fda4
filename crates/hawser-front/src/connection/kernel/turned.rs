//! Connections that go over sessions with their servers, so that the kernel places them on no link.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_capture::process::{Process, is_outermost};
use hawser_capture::{Capture, CaptureError, Connection};
use tokio::sync::watch;

use crate::connection::Origin;

/// Servers with which this host has sessions of its own.
pub trait BondedServers: Send + Sync {
    /// Returns the addresses and ports to which connections go over sessions with servers now.
    fn bonded(&self) -> Vec<SocketAddr>;

    /// Records that the kernel has placed a connection of `origin` to `at` on a link. Connections
    /// whose links are named by rules are not reported.
    fn note_placed(&self, at: SocketAddr, origin: &Origin);
}

/// Destinations whose connections go through this process or nowhere.
pub trait HeldDestinations: Send + Sync {
    /// Returns the version of the list, and the list: present addresses and ports, where port 0
    /// means all ports.
    fn held(&self) -> (u64, Vec<SocketAddr>);

    /// Returns the version, which grows as addresses are added to the list.
    fn versions(&self) -> watch::Receiver<u64>;

    /// Records that connections to the destinations of this version of the list come to this
    /// process now.
    fn note_turned(&self, version: u64);
}

/// Has the kernel's program redirect connections to [`BondedServers`] and [`HeldDestinations`] to
/// this process.
#[derive(Default)]
pub(super) struct Turned {
    servers: Option<Arc<dyn BondedServers>>,
    held: Option<Held>,
    /// The lists that the kernel has.
    known: Known,
}

struct Held {
    destinations: Arc<dyn HeldDestinations>,
    versions: watch::Receiver<u64>,
}

#[derive(Default, Debug, PartialEq, Eq)]
struct Known {
    bonded: BTreeSet<SocketAddr>,
    held: BTreeSet<SocketAddr>,
}

impl Turned {
    /// Sets the servers whose connections are redirected.
    pub(super) fn turn_to(&mut self, servers: Arc<dyn BondedServers>) {
        self.servers = Some(servers);
    }

    /// Sets the destinations whose connections are redirected.
    pub(super) fn hold(&mut self, destinations: Arc<dyn HeldDestinations>) {
        // Nothing is redirected yet, but it will be.
        destinations.note_turned(0);
        let mut versions = destinations.versions();
        versions.mark_changed();
        self.held = Some(Held {
            destinations,
            versions,
        });
    }

    /// Waits until an address is added to the held destinations.
    pub(super) async fn changed(&mut self) {
        if let Some(held) = &mut self.held
            && held.versions.changed().await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }

    /// Reports a connection that could have gone over a session: a TCP connection that was placed
    /// on a link and may use any link.
    pub(super) fn note_placed(&self, connection: &Connection) {
        let Some(servers) = &self.servers else {
            return;
        };
        if connection.link.is_none() || connection.udp || connection.has_named_links() {
            return;
        }
        // The kernel's process number is the process's own only in the outermost namespace.
        let process = is_outermost().then_some(connection.process);
        let origin = Origin {
            program: Some(connection.program.clone()),
            user: Some(connection.user),
            dscp: Some(connection.dscp),
            ..Process::read(process, connection.user).into()
        };
        servers.note_placed(connection.remote, &origin);
    }

    /// Updates the kernel's program where something has changed.
    pub(super) fn refresh(&mut self, capture: &mut Capture) -> Result<(), CaptureError> {
        let servers = self.servers.as_ref();
        let bonded = servers.map(|it| it.bonded()).unwrap_or_default();
        let held = self.held.as_ref().map(|it| it.destinations.held());
        let (version, held) = held.unzip();
        let now = Known {
            bonded: bonded.into_iter().collect(),
            held: held.into_iter().flatten().collect(),
        };
        if now != self.known {
            let list = |of: &BTreeSet<SocketAddr>| of.iter().copied().collect::<Vec<_>>();
            capture.set_peers(&list(&now.bonded), &list(&now.held))?;
            self.known = now;
        }
        if let (Some(held), Some(version)) = (&self.held, version) {
            held.destinations.note_turned(version);
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
