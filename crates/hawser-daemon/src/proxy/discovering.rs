//! Servers that `hawser up --discover` finds Hawser on.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use hawser_capture::CaptureError;
use hawser_config::{DEFAULT_FRONT_PORT, UpConfig};
use hawser_front::connection::SharedDirector;
use hawser_front::peer::{
    DiscoveredServers, DiscoverySettings, Handshakes, PeerFinder, PeerSettings,
};
use hawser_keys::host_port::HostPort;
use hawser_keys::store::{ClientStore, EnrolledGateway, PinStore};

use super::direct::ConnectionRules;
use super::links::Links;
use super::peering::{OverOneLink, PeerClients};
use super::rules::LinkRuleStore;
use super::session::Choice;
use crate::handshake::announcing::Announcing;
use crate::setup::Setup;

/// The discovered servers, and the announcements that help to find them.
pub struct Discovering {
    /// The servers.
    pub servers: DiscoveredServers,
    /// Announces this host in handshakes; `None` without the programs in the kernel.
    pub(crate) announcing: Option<Arc<Announcing>>,
}

/// Settings of the search for servers.
pub struct Seeking<'a> {
    /// The keys of this host.
    pub setup: &'a Setup,
    /// The settings of `hawser up`.
    pub config: &'a UpConfig,
    /// The links, and what the user allows them for.
    pub links: (&'a Links, &'a Arc<LinkRuleStore>),
    /// The control group of the programs whose handshakes ask servers for Hawser.
    pub group: Result<PathBuf, CaptureError>,
    /// Is told which servers were discovered.
    pub director: SharedDirector,
    /// Rules for connections.
    pub rules: ConnectionRules,
    /// Policies with which new sessions begin.
    pub choice: &'a Choice,
    /// Finds peers; hosts at the addresses of peers are left alone.
    pub peers: Option<PeerFinder>,
}

impl Seeking<'_> {
    /// Begins the search. Leaves alone hosts that this one has enrolled with.
    pub fn start(self) -> anyhow::Result<Discovering> {
        let (config, peers) = (self.config, self.peers);
        let connect = OverOneLink::new(&config.links, self.links);
        let clients = PeerClients::new(self.setup, &config.links, self.links, self.choice);
        self.setup.state.prepare()?;
        let enrolled = ClientStore::open(&self.setup.state)?;
        let settings = PeerSettings {
            keep_missing: self.setup.config.connection.peer_retry,
            ..PeerSettings::at_port(DEFAULT_FRONT_PORT)
        };
        let (announcing, handshakes) = announce(self.group, self.director);
        let servers = DiscoveredServers::start(DiscoverySettings {
            finder: PeerFinder::of_anyone(connect, settings),
            pins: PinStore::open(&self.setup.state)?,
            start: Box::new(move |pin, identity, first| {
                let door = SocketAddr::new(pin.at.ip(), DEFAULT_FRONT_PORT);
                let door = HostPort::try_from(door).into_iter().collect();
                clients.start_as(identity, pin.key, door, first)
            }),
            is_enrolled: Box::new(move |at| {
                if let Err(error) = enrolled.reload_if_changed() {
                    tracing::debug!(%error, "can't reload the list of gateways");
                }
                let is_peer = peers.as_ref().is_some_and(|it| it.known(at).is_some());
                is_peer || enrolled.gateways().iter().any(|it| is_of(it, at))
            }),
            rules: self.rules,
            require_bonded: config.require_bonded,
            handshakes,
        });
        tracing::info!("looking for Hawser on the servers that connections go to");
        Ok(Discovering {
            servers,
            announcing,
        })
    }
}

/// Begins to discover servers by handshakes, if possible.
fn announce(
    group: Result<PathBuf, CaptureError>,
    director: SharedDirector,
) -> (Option<Arc<Announcing>>, Option<Handshakes>) {
    match group.and_then(|group| Announcing::start(&group, director)) {
        Ok((announcing, handshakes)) => (Some(Arc::new(announcing)), Some(handshakes)),
        Err(error) => {
            tracing::warn!(
                %error,
                port = DEFAULT_FRONT_PORT,
                "can't discover servers by TCP handshakes: probing each server at this port"
            );
            (None, None)
        }
    }
}

/// Returns whether this host knows `at` as an address of the gateway or peer.
fn is_of(gateway: &EnrolledGateway, at: IpAddr) -> bool {
    let named = gateway.addresses.iter().filter_map(HostPort::socket_addr);
    let mut known = named.chain(gateway.reached.iter().copied());
    known.any(|it| it.ip().to_canonical() == at.to_canonical())
}

#[cfg(test)]
mod tests {
    use hawser_keys::identity::PublicKey;
    use hawser_keys::store::StateDir;
    use hawser_keys::unix_time::UnixTime;

    use super::*;

    #[test]
    fn a_gateway_is_known_by_its_addresses_and_by_where_it_was_reached() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let (store, key) = (
            ClientStore::open(&state).unwrap(),
            PublicKey::from_bytes([1; 32]),
        );
        let addresses = ["192.0.2.1:7443", "gw.example:7443"];
        let addresses = addresses.map(|text| HostPort::parse(text, None).unwrap());
        store.remember(key, &addresses, UnixTime::now()).unwrap();
        let reached = ["192.0.2.2:7443".parse().unwrap()];
        store.note_reached(&key, &reached).unwrap();
        let gateway = store.gateway(&key).unwrap();
        for (at, is_its) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", true),
            ("192.0.2.3", false),
        ] {
            assert_eq!(is_of(&gateway, at.parse().unwrap()), is_its, "{at}");
        }
    }
}
