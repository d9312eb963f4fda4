//! Connections that go straight over one link or over a gateway, each as it is best for it.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_net::links::Routes;
use hawser_sched::connection::{By, GatewayUse};
use tokio::time::{Instant, timeout};

use crate::bonded::BondDialer;
use crate::connection::{Chosen, Counted, Director, Observe, Origin};
use crate::destination::{Destination, Host, HostName};
use crate::peer::PeerStream;
use crate::resolve::{SystemResolver, addresses_of};
use crate::transport::{DialError, Dialer};

/// Dials by a gateway.
pub trait GatewayDialer: Dialer<Stream: Observe> {
    /// Whether a session with it runs.
    fn is_up(&self) -> bool;
}

/// Tells what leads to networks of this machine.
pub trait Surroundings: Send + Sync + 'static {
    /// Whether `address` is reached otherwise than by a default route.
    fn is_near(&self, address: IpAddr) -> impl Future<Output = bool> + Send;
}

/// Dials with `D`, over one link, or by the gateway `G`, as a [`Director`] decides for each
/// connection. None changes its way later.
#[derive(Clone, Debug)]
pub struct ChoiceDialer<D, G, S = Routes> {
    direct: D,
    gateway: G,
    director: Director,
    usage: GatewayUse,
    surroundings: Arc<S>,
    resolver: SystemResolver,
}

/// What a [`ChoiceDialer`] opens.
type Stream<D, G> = PeerStream<<D as Dialer>::Stream, Counted<<G as Dialer>::Stream>>;

impl<D: Dialer, G: GatewayDialer> ChoiceDialer<D, G> {
    /// A dialer that tells `director` of the gateway, which is used as `usage` says where rules
    /// don't. `direct` decides by the same director which link a connection takes.
    pub fn new(direct: D, gateway: G, director: Director, usage: GatewayUse) -> Self {
        Self::in_surroundings(direct, gateway, (director, usage), Routes::default())
    }
}

impl<D: Dialer, G: GatewayDialer, S: Surroundings> ChoiceDialer<D, G, S> {
    fn in_surroundings(
        direct: D,
        gateway: G,
        (director, usage): (Director, GatewayUse),
        surroundings: S,
    ) -> Self {
        director.set_gateway(usage);
        Self {
            direct,
            gateway,
            director,
            usage,
            surroundings: Arc::new(surroundings),
            resolver: SystemResolver::new(),
        }
    }

    /// Whether a host is this machine, on a network of one of its links, or behind a route that was
    /// made for it: the gateway leads elsewhere.
    async fn is_near(&self, host: &Host) -> bool {
        match host {
            // Who asks a gateway for everything for loopback means the gateway's.
            Host::Ip(address) if address.to_canonical().is_loopback() => !self.is_for_all(),
            Host::Ip(address) => self.surroundings.is_near(*address).await,
            Host::Name(name) if is_loopback_name(name) => !self.is_for_all(),
            Host::Name(name) if is_local_name(name) => self.leads_nearby(host).await,
            Host::Name(_) => false,
        }
    }

    fn is_for_all(&self) -> bool {
        self.usage == GatewayUse::Always
    }

    /// Whether a name that only this network knows leads to it.
    async fn leads_nearby(&self, host: &Host) -> bool {
        let lookup = timeout(LOOKUP_PATIENCE, addresses_of(&self.resolver, host));
        let Ok(Ok(addresses)) = lookup.await else {
            return false;
        };
        for address in addresses {
            if !self.surroundings.is_near(address).await {
                return false;
            }
        }
        true
    }

    async fn dial_by_gateway(
        &self,
        destination: &Destination,
        chosen: &Chosen,
    ) -> Result<Counted<G::Stream>, DialError> {
        // Waiting for a session says nothing of what comes then.
        let was_up = self.gateway.is_up();
        let (begun, flow) = (Instant::now(), self.director.open_by_gateway(chosen));
        let stream = self.gateway.dial(destination).await?;
        flow.connected(was_up.then(|| begun.elapsed()));
        Ok(Counted::new(stream, Some(flow)))
    }

    /// Dials by the gateway, and soon over a link as well; the first that is answered is it.
    async fn dial_by_either(
        &self,
        destination: &Destination,
        origin: &Origin,
        chosen: &Chosen,
    ) -> Result<Stream<D, G>, DialError> {
        let mut bonded = std::pin::pin!(self.dial_by_gateway(destination, chosen));
        let first = timeout(chosen.patience, &mut bonded).await;
        if let Ok(Ok(stream)) = first {
            return Ok(PeerStream::Bonded(stream));
        }
        let mut direct = std::pin::pin!(self.direct.dial_for(destination, origin));
        if let Ok(Err(error)) = first {
            tracing::debug!(%destination, %error, "the gateway is of no use for this one");
            return direct.await.map(PeerStream::Direct);
        }
        tokio::select! {
            dialed = &mut bonded => match dialed {
                Ok(stream) => Ok(PeerStream::Bonded(stream)),
                Err(_) => direct.await.map(PeerStream::Direct),
            },
            dialed = &mut direct => match dialed {
                Ok(stream) => Ok(PeerStream::Direct(stream)),
                Err(error) => bonded.await.map(PeerStream::Bonded).map_err(|_| error),
            },
        }
    }
}

impl<D: Dialer, G: GatewayDialer, S: Surroundings> Dialer for ChoiceDialer<D, G, S> {
    type Stream = Stream<D, G>;

    async fn dial(&self, destination: &Destination) -> Result<Self::Stream, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Self::Stream, DialError> {
        let is_near = self.is_near(&destination.host).await;
        let chosen = self.director.choose(&origin.towards(destination), is_near);
        let by = match chosen.by {
            // The session has just ended.
            By::Gateway if !chosen.is_only && !self.gateway.is_up() => By::Link,
            by => by,
        };
        match by {
            By::Link => {
                let dialed = self.direct.dial_for(destination, origin).await;
                dialed.map(PeerStream::Direct)
            }
            By::Gateway if chosen.is_only => {
                let dialed = self.dial_by_gateway(destination, &chosen).await;
                dialed.map(PeerStream::Bonded)
            }
            By::Gateway => self.dial_by_either(destination, origin, &chosen).await,
        }
    }
}

impl GatewayDialer for BondDialer {
    fn is_up(&self) -> bool {
        self.client().is_admitted()
    }
}

impl Surroundings for Routes {
    async fn is_near(&self, address: IpAddr) -> bool {
        self.is_particular(address).await
    }
}

/// RFC 6761 §6.3.
fn is_loopback_name(name: &HostName) -> bool {
    let name = name.as_str().trim_end_matches('.');
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

/// Names that nobody has registered, so that they can only be the neighbourhood's. Any other name
/// is the gateway's to look up, and nobody here is asked for it.
///
/// Source: RFC 6762 §3, RFC 8375, and what ICANN keeps for private use.
fn is_local_name(name: &HostName) -> bool {
    let name = name.as_str().trim_end_matches('.').to_ascii_lowercase();
    let is_below = |zone: &str| {
        let above = name.strip_suffix(zone);
        above.is_some_and(|above| above.ends_with('.'))
    };
    !name.contains('.') || LOCAL_ZONES.into_iter().any(is_below)
}

const LOCAL_ZONES: [&str; 6] = [
    "local",
    "home.arpa",
    "internal",
    "lan",
    "home",
    "localdomain",
];
/// Whoever has such a name is near, and answers at once.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests;
