//! Ports of this host that other hosts may reach, as the user has named them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hawser_keys::identity::PublicKey;
use hawser_net::gateway::{Accounts, Holder};
use hawser_types::ByteCount;
use tokio::net::TcpStream;
use tracing::Instrument as _;

use crate::bonded::Bonded;
use crate::connect::{Connect, connect_tcp};
use crate::destination::HostName;
use crate::gateway::{
    Cidr, ClientId, DestinationPolicy, Gateway, GatewayConfig, IncomingStream as _,
};
use crate::own_ports::OwnPorts;
use crate::resolve::Resolve;
use crate::transport::{ByteStream as _, DialError};

/// The ports of this host that others may reach, by streams of their sessions.
#[derive(Debug)]
pub struct Offers {
    ports: OwnPorts,
    relay: Gateway<ByLoopback, OwnHost>,
    /// Accounts that other hosts' streams are charged to.
    accounts: Accounts,
}

impl Offers {
    /// Offers these ports of the loopback interface, and nothing else.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        let loopback = [
            Cidr::new(Ipv4Addr::LOCALHOST.into(), 32),
            Cidr::new(Ipv6Addr::LOCALHOST.into(), 128),
        ];
        let policy = DestinationPolicy::new(loopback.into_iter().flatten().collect(), |_| true);
        let config = GatewayConfig::default();
        Self {
            ports: OwnPorts::new(ports),
            relay: Gateway::with_resolver(ByLoopback, OwnHost, policy, config),
            accounts: Accounts::new(MEMORY),
        }
    }

    /// Returns how many streams are open.
    pub fn open(&self) -> u64 {
        self.relay.counters().snapshot().current
    }

    /// Serves a stream of the host with this key to its end.
    pub async fn serve(self: Arc<Self>, peer: PublicKey, stream: Bonded) {
        let span = stream.span();
        let serving = async {
            if let Err(error) = self.ports.judge(stream.open_metadata()) {
                tracing::debug!(%error, "refused a stream of another host");
                return stream.refuse(error);
            }
            let client = ClientId::new(*peer.as_bytes());
            let account = self.accounts.of(Holder::Key(client.to_bytes()));
            if let Err(error) = self.relay.handle(client, &account, stream).await {
                tracing::debug!(%error, "can't reach an offered port");
            }
        };
        serving.instrument(span).await;
    }
}

/// Resolves every name to both loopback addresses: an application may listen on either.
#[derive(Clone, Copy, Debug)]
struct OwnHost;

impl Resolve for OwnHost {
    async fn resolve(&self, _: &HostName) -> Result<Vec<IpAddr>, DialError> {
        Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
    }
}

/// Memory for other hosts' streams beside their data.
const MEMORY: ByteCount = ByteCount::from_mib(256);

#[derive(Clone, Copy, Debug)]
struct ByLoopback;

impl Connect for ByLoopback {
    type Stream = TcpStream;

    async fn connect(&self, address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        connect_tcp(address).await
    }
}
