use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures_util::future::join_all;
use hawser_net::bind::{SocketOptions, connect_on_link};
use hawser_net::links::{Link, Routes};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::counted::{Counted, Observe};
use super::race::Race;
use super::{Director, Origin, RememberingResolver};
use crate::connect::{ConnectOptions, interleave};
use crate::destination::Destination;
use crate::resolve::{Resolve, SystemResolver, addresses_of};
use crate::transport::{ByteStream, DialError, Dialer};

/// Makes connections over given links.
pub trait Via: Send + Sync + 'static {
    /// What a connection is.
    type Stream: ByteStream + Observe;

    /// Connects to `address` over `link`, or as the system's routes have it. Dropping the future
    /// gives the attempt up.
    fn connect(
        &self,
        link: Option<&Link>,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Whether `address` is to be reached as the system's routes have it: it is this machine's own,
    /// on a link itself, or has a route that is more particular than the default one.
    fn goes_by_routes(&self, address: IpAddr) -> impl Future<Output = bool> + Send;
}

/// TCP connections, bound to their links.
#[derive(Debug)]
pub struct TcpVia {
    options: SocketOptions,
    routes: Routes,
}

impl TcpVia {
    /// Connections that offer Multipath TCP, or do not.
    pub fn new(mptcp: bool) -> Self {
        let options = SocketOptions {
            mptcp,
            ..SocketOptions::default()
        };
        Self {
            options,
            routes: Routes::default(),
        }
    }
}

impl Via for TcpVia {
    type Stream = TcpStream;

    async fn connect(&self, link: Option<&Link>, address: SocketAddr) -> io::Result<TcpStream> {
        Ok(connect_on_link(link, address, &self.options).await?)
    }

    async fn goes_by_routes(&self, address: IpAddr) -> bool {
        self.routes.is_particular(address).await
    }
}

/// A dialer that spreads connections over links, with `V` to connect and `R` to resolve names.
#[derive(Debug)]
pub struct LinkDialer<V = TcpVia, R = RememberingResolver<SystemResolver>> {
    director: Director,
    via: Arc<V>,
    resolver: R,
    options: ConnectOptions,
}

impl LinkDialer {
    /// A dialer by `director`, with the system's resolver and the default times. `mptcp`: whether
    /// destinations are offered Multipath TCP.
    pub fn new(director: Director, mptcp: bool) -> Self {
        let resolver = RememberingResolver::new(SystemResolver::new());
        let options = ConnectOptions::default();
        Self::with(director, TcpVia::new(mptcp), resolver, options)
    }
}

impl<V: Via, R: Resolve> LinkDialer<V, R> {
    /// A dialer with all its parts given.
    pub fn with(director: Director, via: V, resolver: R, options: ConnectOptions) -> Self {
        Self {
            director,
            via: Arc::new(via),
            resolver,
            options,
        }
    }

    /// Who decides for it.
    pub const fn director(&self) -> &Director {
        &self.director
    }

    async fn addresses(&self, destination: &Destination) -> Result<Vec<IpAddr>, DialError> {
        let lookup = addresses_of(&self.resolver, &destination.host);
        let addresses = timeout(self.options.resolve_timeout, lookup).await;
        let addresses = addresses.unwrap_or(Err(DialError::ResolverUnavailable))?;
        let canonical: Vec<_> = addresses.iter().map(IpAddr::to_canonical).collect();
        Ok(interleave(&canonical))
    }
}

impl<V: Via, R: Resolve> Dialer for LinkDialer<V, R> {
    type Stream = Counted<V::Stream>;

    async fn dial(&self, destination: &Destination) -> Result<Self::Stream, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Self::Stream, DialError> {
        let addresses = self.addresses(destination).await?;
        let asked = addresses.iter().map(|it| self.via.goes_by_routes(*it));
        let by_routes = join_all(asked).await;
        let mut origin = origin.towards(destination);
        if let [only] = addresses[..] {
            origin.remote = Some(only);
        }
        let race = Race::new(&self.director, &self.via, origin, addresses, by_routes);
        timeout(self.options.timeout, race.run())
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }
}
