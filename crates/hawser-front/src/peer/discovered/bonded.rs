//! Servers with which sessions exist.

use std::net::SocketAddr;

use hawser_keys::identity::PublicKey;
use hawser_keys::store::Pin;
use tokio::time::Instant;

use super::DiscoveredServers;
use super::servers::FoundServer;
use super::shared::DiscoveredState;
use crate::connection::{BondedServers, Origin};
use crate::peer::peers::may_use_all_links;

impl DiscoveredServers {
    /// Returns the discovered servers with which sessions were begun.
    pub fn found(&self) -> Vec<FoundServer> {
        let running = self.shared.running();
        let begun = self.shared.pool.clients().into_keys();
        let pins: Vec<Pin> = begun.filter_map(|it| self.shared.pin_of(it)).collect();
        let servers = self.shared.servers.lock();
        let found = pins.into_iter().map(|pin| FoundServer {
            at: pin.at,
            key: pin.key,
            by_handshake: servers.has_offered(pin.at),
            is_bonded: running.contains(&pin),
        });
        found.collect()
    }
}

/// For connections that the capture program in the kernel places on links.
impl BondedServers for DiscoveredServers {
    fn bonded(&self) -> Vec<SocketAddr> {
        let running = self.shared.running().into_iter();
        running.map(|pin| pin.at).collect()
    }

    fn note_placed(&self, at: SocketAddr, origin: &Origin) {
        if may_use_all_links(&self.shared.rules.borrow(), &at.into(), origin) {
            self.shared.look_for_placed(at);
        }
    }
}

impl DiscoveredState {
    /// Returns the pin of the server with which a session was begun, if the pin still has the
    /// session's key.
    fn pin_of(&self, (at, key): (SocketAddr, PublicKey)) -> Option<Pin> {
        self.pin(at).filter(|pin| pin.key == key)
    }

    /// Returns the servers that connections now reach over sessions.
    fn running(&self) -> Vec<Pin> {
        let clients = self.pool.clients().into_iter();
        let admitted = clients.filter(|(_, client)| client.is_admitted());
        let pins = admitted.filter_map(|(it, _)| self.pin_of(it));
        // The server of a session that began on a connection to the service may be unprobed.
        let known = |pin: &Pin| self.finder.known(pin.at.ip());
        let is_its = |pin: &Pin| known(pin).is_none_or(|key| key == pin.key);
        let (now, servers) = (Instant::now(), self.servers.lock());
        let of_use = |pin: &Pin| !servers.is_set_aside(pin.at, now);
        pins.filter(|pin| is_its(pin) && of_use(pin)).collect()
    }
}
