//! What other hosts may reach on this one: ports of its own that the user has named.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hawser_net::identity::PublicKey;
use tokio::net::TcpStream;

use crate::bonded::{Bonded, Purpose};
use crate::connect::{Connect, connect_tcp};
use crate::destination::{Destination, Host, HostName};
use crate::gateway::{
    Cidr, ClientId, DestinationPolicy, Gateway, GatewayConfig, IncomingStream as _,
};
use crate::resolve::Resolve;
use crate::transport::DialError;

/// The ports of this host that others may reach, by streams of their sessions.
#[derive(Debug)]
pub struct Offers {
    ports: BTreeSet<u16>,
    relay: Gateway<ByLoopback, OwnHost>,
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
            ports: ports.into_iter().collect(),
            relay: Gateway::with_resolver(ByLoopback, OwnHost, policy, config),
        }
    }

    /// Serves a stream of the host with this key to its end.
    pub async fn serve(self: Arc<Self>, peer: PublicKey, stream: Bonded) {
        if let Err(error) = self.check(stream.open_metadata()) {
            tracing::debug!(%peer, %error, "a stream is refused");
            return stream.refuse(error);
        }
        let client = ClientId::new(*peer.as_bytes());
        if let Err(error) = self.relay.handle(client, stream).await {
            tracing::debug!(%peer, %error, "an offered port can't be reached");
        }
    }

    fn check(&self, opening: &[u8]) -> Result<(), DialError> {
        if Purpose::of(opening) != Some(Purpose::Connect) {
            return Err(DialError::RefusedByPolicy);
        }
        let destination = Destination::decode(opening);
        let destination = destination.map_err(|_| DialError::MalformedDestination)?;
        let is_own = destination.host == own_host() && self.ports.contains(&destination.port);
        is_own.then_some(()).ok_or(DialError::RefusedByPolicy)
    }
}

/// A port of the far end itself, as streams name it.
pub(super) fn at_peer(port: u16) -> Destination {
    Destination::new(own_host(), port)
}

fn own_host() -> Host {
    let name = "localhost".parse::<HostName>();
    Host::Name(name.unwrap_or_else(|_| unreachable!("it is a name")))
}

/// Programs listen at either of the loopback addresses.
#[derive(Clone, Copy, Debug)]
struct OwnHost;

impl Resolve for OwnHost {
    async fn resolve(&self, _: &HostName) -> Result<Vec<IpAddr>, DialError> {
        Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
    }
}

#[derive(Clone, Copy, Debug)]
struct ByLoopback;

impl Connect for ByLoopback {
    type Stream = TcpStream;

    async fn connect(&self, address: std::net::SocketAddr) -> std::io::Result<TcpStream> {
        connect_tcp(address).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_offered_but_ports_that_were_named() {
        let offers = Offers::new([22]);
        let check = |text: &str| {
            let destination = Destination::parse(text, None).unwrap();
            offers.check(&destination.to_bytes())
        };
        assert_eq!(check("localhost:22"), Ok(()));
        for other in [
            "localhost:23",
            "127.0.0.1:22",
            "[::1]:22",
            "10.0.0.1:22",
            "example.org:22",
        ] {
            assert_eq!(check(other), Err(DialError::RefusedByPolicy), "{other}");
        }
        for purpose in [Purpose::File, Purpose::Sink, Purpose::Source(1)] {
            let refused = Err(DialError::RefusedByPolicy);
            assert_eq!(offers.check(&purpose.opening()), refused);
        }
        assert_eq!(offers.check(&[3, 0]), Err(DialError::MalformedDestination));
    }
}
