//! Servers that `hawser up --discover` finds Hawser on.

use std::net::SocketAddr;

use hawser_config::DEFAULT_FRONT_PORT;
use hawser_front::peer::{DiscoveredServers, DiscoverySettings, PeerFinder, PeerSettings};
use hawser_net::host_port::HostPort;
use hawser_net::store::PinStore;

use super::direct::ConnectionRules;
use super::peering::{OverOneLink, PeerClients};
use crate::setup::Setup;

/// Begins to look for them, with connections of `connect`; sessions with them are of `clients`.
/// `require_bonded`: connections to one whose key is pinned are refused rather than have them go
/// without a session.
pub(crate) fn discover(
    setup: &Setup,
    (connect, clients): (OverOneLink, PeerClients),
    rules: ConnectionRules,
    require_bonded: bool,
) -> anyhow::Result<DiscoveredServers> {
    setup.state.prepare()?;
    let settings = PeerSettings {
        keep_missing: setup.config.connection.peer_retry,
        ..PeerSettings::at_port(DEFAULT_FRONT_PORT)
    };
    let servers = DiscoveredServers::start(DiscoverySettings {
        finder: PeerFinder::of_anyone(connect, settings),
        pins: PinStore::open(&setup.state)?,
        start: Box::new(move |pin, identity| {
            let door = SocketAddr::new(pin.at.ip(), DEFAULT_FRONT_PORT);
            let door = HostPort::try_from(door).into_iter().collect();
            clients.start_as(identity, pin.key, door)
        }),
        rules,
        require_bonded,
        heard: None,
    });
    tracing::info!("Hawser is looked for on the servers that connections go to");
    Ok(servers)
}
