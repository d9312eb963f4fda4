//! Servers that `hawser up --discover` finds Hawser on.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hawser_config::{DEFAULT_FRONT_PORT, UpConfig};
use hawser_front::connection::SharedDirector;
use hawser_front::peer::{
    DiscoveredServers, DiscoverySettings, Handshakes, PeerFinder, PeerSettings,
};
use hawser_net::host_port::HostPort;
use hawser_net::store::{ClientStore, EnrolledGateway, PinStore};

use super::direct::ConnectionRules;
use super::links::Links;
use super::peering::{OverOneLink, PeerClients};
use super::rules::LinkRuleStore;
use super::session::Choice;
use crate::daemon::handshake::announcing::Announcing;
use crate::setup::Setup;

/// Servers that are found, and what finds them.
pub(crate) struct Discovering {
    pub(crate) servers: DiscoveredServers,
    /// None where the kernel's programs for it can't be had.
    pub(crate) announcing: Option<Arc<Announcing>>,
}

/// Begins to look for them over `links`, as `config` says; sessions with them begin with what is
/// chosen then. Hosts that this one has enrolled with are left alone, also where only `peers` knows
/// that one is at an address.
pub(crate) fn discover(
    setup: &Setup,
    config: &UpConfig,
    (links, director): ((&Links, &Arc<LinkRuleStore>), &SharedDirector),
    rules: ConnectionRules,
    (choice, peers): (&Choice, Option<PeerFinder>),
) -> anyhow::Result<Discovering> {
    let connect = OverOneLink::new(&config.links, links);
    let clients = PeerClients::new(setup, &config.links, links, choice);
    setup.state.prepare()?;
    let enrolled = ClientStore::open(&setup.state)?;
    let settings = PeerSettings {
        keep_missing: setup.config.connection.peer_retry,
        ..PeerSettings::at_port(DEFAULT_FRONT_PORT)
    };
    let (announcing, handshakes) = announce(director);
    let servers = DiscoveredServers::start(DiscoverySettings {
        finder: PeerFinder::of_anyone(connect, settings),
        pins: PinStore::open(&setup.state)?,
        start: Box::new(move |pin, identity| {
            let door = SocketAddr::new(pin.at.ip(), DEFAULT_FRONT_PORT);
            let door = HostPort::try_from(door).into_iter().collect();
            clients.start_as(identity, pin.key, door)
        }),
        is_enrolled: Box::new(move |at| {
            if let Err(error) = enrolled.reload_if_changed() {
                tracing::debug!(%error, "the list of gateways is as it was");
            }
            let is_peer = peers.as_ref().is_some_and(|it| it.known(at).is_some());
            is_peer || enrolled.gateways().iter().any(|it| is_of(it, at))
        }),
        rules,
        require_bonded: config.require_bonded,
        handshakes,
    });
    tracing::info!("Hawser is looked for on the servers that connections go to");
    Ok(Discovering {
        servers,
        announcing: announcing.map(Arc::new),
    })
}

/// Has handshakes tell of servers, where that can be.
fn announce(director: &SharedDirector) -> (Option<Announcing>, Option<Handshakes>) {
    match Announcing::start(director.clone()) {
        Ok((announcing, handshakes)) => (Some(announcing), Some(handshakes)),
        Err(error) => {
            tracing::warn!(
                %error,
                port = DEFAULT_FRONT_PORT,
                "handshakes do not tell which servers have Hawser: each is probed at this port"
            );
            (None, None)
        }
    }
}

/// Whether a gateway, or a peer, is at this address as far as this host knows.
fn is_of(gateway: &EnrolledGateway, at: IpAddr) -> bool {
    let named = gateway.addresses.iter().filter_map(HostPort::socket_addr);
    let mut known = named.chain(gateway.reached.iter().copied());
    known.any(|it| it.ip().to_canonical() == at.to_canonical())
}

#[cfg(test)]
mod tests {
    use hawser_net::identity::PublicKey;
    use hawser_net::store::StateDir;
    use hawser_net::unix_time::UnixTime;

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
