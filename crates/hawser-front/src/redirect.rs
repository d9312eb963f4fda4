//! Connections of a program or another host that were redirected from their destination to a port
//! on loopback.
//!
//! The program does not notice the redirection. Its connect succeeds before the destination has
//! been reached; if the destination cannot be reached, the connection is reset. Data that the
//! program sends meanwhile may be sent ahead ([`EarlyData`]).

mod forwarded;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

use crate::connection::{EarlyData, Origin, known};
use crate::destination::Destination;
use crate::proxy::{Context, Guarded, ProxyConfig, ProxyCounters, accept_all};
use crate::relay::Side;
use crate::transport::Dialer;
pub use forwarded::{Forwarded, HostPlace};

/// Knows the original destinations of connections. Implemented by every closure that finds the
/// destination by the address of the accepted socket's peer.
pub trait Lookup: Send + Sync + 'static {
    /// A value that is kept until the connection ends.
    type Kept: Send;

    /// Returns the original destination of the connection from `peer`, accepted at `local`; `None`
    /// to refuse it. Called once for each connection.
    fn take(&self, peer: SocketAddr, local: SocketAddr) -> Option<Redirected<Self::Kept>>;
}

/// Facts about a redirected connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirected<K> {
    /// The original destination.
    pub destination: SocketAddr,
    /// The program that made the connection.
    pub origin: Origin,
    /// A value that is kept until the connection ends.
    pub kept: K,
}

impl<L: Fn(SocketAddr) -> Option<SocketAddr> + Send + Sync + 'static> Lookup for L {
    type Kept = ();

    fn take(&self, peer: SocketAddr, _local: SocketAddr) -> Option<Redirected<()>> {
        self(peer).map(|destination| Redirected {
            destination,
            origin: Origin::default(),
            kept: (),
        })
    }
}

/// The ports that connections are redirected to, one on the loopback address of each family.
pub struct RedirectServer<D, L> {
    v4: Port,
    v6: Option<Port>,
    context: Arc<Context<D>>,
    lookup: Arc<L>,
}

struct Port {
    listener: TcpListener,
    number: u16,
}

impl<D: Dialer, L: Lookup> RedirectServer<D, L> {
    /// Opens the ports with free numbers. A machine without IPv6 has only one.
    ///
    /// # Errors
    /// When the system refuses to listen on 127.0.0.1.
    pub async fn bind(dialer: Arc<D>, lookup: L) -> io::Result<Self> {
        let v6 = Port::open((Ipv6Addr::LOCALHOST, 0).into()).await;
        let v6 = v6.inspect_err(|error| debug!(%error, "cannot listen on IPv6 loopback"));
        let v4 = Port::open((Ipv4Addr::LOCALHOST, 0).into()).await?;
        Ok(Self::serving(v4, v6.ok(), dialer, lookup))
    }

    /// Serves ports that are open already.
    ///
    /// # Errors
    /// When the system does not report their numbers.
    pub fn with(
        v4: TcpListener,
        v6: Option<TcpListener>,
        dialer: Arc<D>,
        lookup: L,
    ) -> io::Result<Self> {
        let v6 = v6.map(Port::of).transpose()?;
        Ok(Self::serving(Port::of(v4)?, v6, dialer, lookup))
    }

    fn serving(v4: Port, v6: Option<Port>, dialer: Arc<D>, lookup: L) -> Self {
        Self {
            v4,
            v6,
            context: Arc::new(Context::new(dialer, ProxyConfig::default())),
            lookup: Arc::new(lookup),
        }
    }

    /// The port on 127.0.0.1.
    pub fn v4(&self) -> u16 {
        self.v4.number
    }

    /// The port on ::1.
    pub fn v6(&self) -> Option<u16> {
        self.v6.as_ref().map(|port| port.number)
    }

    /// The counters, which stay readable while and after the ports are served.
    pub fn counters(&self) -> Arc<ProxyCounters> {
        self.context.counters()
    }

    /// Serves until `shutdown` is ready; then resets open connections.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let shutdown = shutdown.shared();
        let serve_port = async |port: &Port| {
            let serve = |client, peer| {
                let (context, lookup) = (Arc::clone(&self.context), Arc::clone(&self.lookup));
                async move { serve(client, peer, &context, &*lookup).await }
            };
            accept_all(&port.listener, &self.context, serve, shutdown.clone()).await;
        };
        match &self.v6 {
            Some(v6) => {
                tokio::join!(serve_port(&self.v4), serve_port(v6));
            }
            None => serve_port(&self.v4).await,
        }
    }
}

/// Reads data of a program into `early`. Returns when the program has given up.
async fn hear(client: &TcpStream, early: &EarlyData) {
    let mut has_more = true;
    loop {
        let room = early.room();
        let interest = if has_more && room > 0 {
            Interest::READABLE | Interest::ERROR
        } else {
            Interest::ERROR
        };
        match client.ready(interest).await {
            Ok(ready) if ready.is_error() => return,
            Ok(_) if interest.is_readable() => {}
            Ok(_) => continue,
            Err(_) => return,
        }
        let mut said = Vec::with_capacity(room.min(READ_AT_ONCE));
        match client.try_read_buf(&mut said) {
            // The relay finds out whether the program has ended its half.
            Ok(0) => has_more = false,
            Ok(_) => early.put(&said),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

impl Port {
    async fn open(address: SocketAddr) -> io::Result<Self> {
        Self::of(TcpListener::bind(address).await?)
    }

    fn of(listener: TcpListener) -> io::Result<Self> {
        let number = listener.local_addr()?.port();
        Ok(Self { listener, number })
    }
}

async fn serve<D: Dialer, L: Lookup>(
    client: TcpStream,
    peer: SocketAddr,
    context: &Context<D>,
    lookup: &L,
) {
    let mut client = Guarded::new(client);
    // Before the destination has answered, every end of the connection must look like a failure.
    client.is_busy = true;
    let local = client.stream().local_addr().ok();
    let Some(redirected) = local.and_then(|local| lookup.take(peer, local)) else {
        return debug!(%peer, "refused a connection without known destination");
    };
    let destination = Destination::from(redirected.destination);
    let early = EarlyData::default();
    let context = context.of(known(Origin {
        early: Some(early.clone()),
        ..redirected.origin
    }));
    let dialled = tokio::select! {
        dialled = context.dial(&destination) => dialled,
        () = hear(client.stream(), &early) => return,
    };
    if let Ok(server) = dialled {
        context.counters().bytes.add_up(early.left());
        let client = Side {
            stream: client.into_stream(),
            early: early.rest(),
        };
        context.relay(client, server.into()).await;
    }
    drop(redirected.kept);
}

/// Most programs send little before they get an answer.
const READ_AT_ONCE: usize = 2048;
