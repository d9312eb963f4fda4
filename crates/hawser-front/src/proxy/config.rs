use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use super::credentials::Credentials;
use crate::relay::RelayOptions;

/// Settings of a proxy port.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Listen on an address that others can reach.
    pub allow_lan: bool,
    /// What every client has to say; `None` to ask for nothing. SOCKS4 is refused with it, since
    /// it has no password.
    pub credentials: Option<Arc<Credentials>>,
    /// Connections at the same time; more are closed at once.
    pub max_connections: usize,
    /// Ports for datagrams at the same time; more are refused.
    pub max_associations: usize,
    /// From accepting a connection, or the first byte of a later request on it, to the last byte of
    /// the request's header.
    pub handshake_timeout: Duration,
    /// For a dial, in case the dialer never ends it.
    pub dial_timeout: Duration,
    /// How long an HTTP connection may wait for its next request.
    pub keep_alive_timeout: Duration,
    /// How long a relay may stand still.
    pub relay: RelayOptions,
}

impl Default for ProxyConfig {
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            allow_lan: false,
            credentials: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_associations: DEFAULT_MAX_ASSOCIATIONS,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            dial_timeout: DEFAULT_DIAL_TIMEOUT,
            keep_alive_timeout: DEFAULT_KEEP_ALIVE_TIMEOUT,
            relay: RelayOptions::default(),
        }
    }
}

/// The port of SOCKS, on loopback.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1080));
/// Well under the descriptors that a service usually gets, at two for each connection.
pub const DEFAULT_MAX_CONNECTIONS: usize = 4096;
/// Each has a descriptor for itself and one for each link in use.
pub const DEFAULT_MAX_ASSOCIATIONS: usize = 512;

const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_DIAL_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(75);
