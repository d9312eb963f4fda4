//! A dialer without a gateway: names are resolved here and connections go straight out.

use tokio::time::timeout;

use crate::connect::{Connect, ConnectOptions, connect_any};
use crate::destination::Destination;
use crate::resolve::{Resolve, SystemResolver, addresses_of};
use crate::transport::{DialError, Dialer};

/// Resolves names with `R` and connects with `C`, which decides the link that each connection
/// takes.
#[derive(Clone, Debug)]
pub struct DirectDialer<C, R = SystemResolver> {
    connect: C,
    resolver: R,
    options: ConnectOptions,
}

impl<C: Connect> DirectDialer<C> {
    /// A dialer with the system's resolver and the default times.
    pub fn new(connect: C) -> Self {
        Self::with_resolver(connect, SystemResolver::new(), ConnectOptions::default())
    }
}

impl<C: Connect, R: Resolve> DirectDialer<C, R> {
    /// A dialer with all its parts given.
    pub fn with_resolver(connect: C, resolver: R, options: ConnectOptions) -> Self {
        Self {
            connect,
            resolver,
            options,
        }
    }
}

impl<C: Connect, R: Resolve> Dialer for DirectDialer<C, R> {
    type Stream = C::Stream;

    async fn dial(&self, destination: &Destination) -> Result<C::Stream, DialError> {
        let lookup = addresses_of(&self.resolver, &destination.host);
        let addresses = timeout(self.options.resolve_timeout, lookup)
            .await
            .unwrap_or(Err(DialError::ResolverUnavailable))?;
        connect_any(&self.connect, &addresses, destination.port, &self.options).await
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::connect::connect_tcp;
    use crate::destination::HostName;

    #[tokio::test]
    async fn connects_to_names_and_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let dialer = DirectDialer::new(connect_tcp);
        for host in ["127.0.0.1", "localhost"] {
            let destination = format!("{host}:{port}").parse().unwrap();
            let stream = dialer.dial(&destination).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap().port(), port);
        }
    }

    #[tokio::test]
    async fn a_closed_port_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let destination = Destination::from(listener.local_addr().unwrap());
        drop(listener);
        let error = DirectDialer::new(connect_tcp).dial(&destination).await;
        assert_eq!(error.err(), Some(DialError::ConnectionRefused));
    }

    struct Silent;

    impl Resolve for Silent {
        async fn resolve(&self, _name: &HostName) -> Result<Vec<IpAddr>, DialError> {
            std::future::pending().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_name_server_does_not_hold_the_dial_for_ever() {
        let options = ConnectOptions::default();
        let dialer = DirectDialer::with_resolver(connect_tcp, Silent, options);
        let error = dialer.dial(&"example.org:80".parse().unwrap()).await;
        assert_eq!(error.err(), Some(DialError::ResolverUnavailable));
    }
}
