use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use super::credentials::Credentials;
use crate::relay::RelayOptions;

/// Settings of a proxy port.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Allow an address that other machines can reach.
    pub allow_lan: bool,
    /// User name and password that every client must send; `None`: none are asked for. With
    /// credentials SOCKS4 is refused, since it has no password.
    pub credentials: Option<Arc<Credentials>>,
    /// Connections at the same time; further ones are closed at once.
    pub max_connections: usize,
    /// UDP associations at the same time; further ones are refused.
    pub max_associations: usize,
    /// Time from accepting a connection, or from the first byte of a later request on it, to the
    /// last byte of the request's header.
    pub handshake_timeout: Duration,
    /// Timeout for a dial, in case the dialer has none.
    pub dial_timeout: Duration,
    /// How long an HTTP connection may wait for its next request.
    pub keep_alive_timeout: Duration,
    /// How long a relay may be idle.
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
/// Each association has a descriptor for itself and one for each link in use.
pub const DEFAULT_MAX_ASSOCIATIONS: usize = 512;

const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_DIAL_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(75);
