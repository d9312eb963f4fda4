use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use hawser_director::{ConnectionRequest, LinkDecision};
use tokio::time::timeout;

use super::counted::Counted;
use super::race::Race;
use super::via::{TcpVia, Via};
use super::{Origin, RememberingResolver, SharedDirector};
use crate::connect::{ConnectOptions, interleave};
use crate::destination::Destination;
use crate::resolve::{Resolve, SystemResolver, addresses_of};
use crate::transport::{DialError, Dialer};

/// A dialer over links that takes a decision which was made already.
pub trait LinkDial: Dialer {
    /// Looks a destination's name up.
    fn resolve(
        &self,
        destination: &Destination,
    ) -> impl Future<Output = Result<Vec<IpAddr>, DialError>> + Send;

    /// Dials those of `addresses` that `decision` leads to; without one, what the director decides
    /// once it is known which addresses go by routes of their own.
    fn dial_by_links(
        &self,
        request: ConnectionRequest,
        addresses: Vec<IpAddr>,
        decision: Option<LinkDecision>,
    ) -> impl Future<Output = Result<Self::Stream, DialError>> + Send;
}

/// A dialer that spreads connections over links, with `V` to connect and `R` to resolve names.
#[derive(Debug)]
pub struct LinkDialer<V = TcpVia, R = RememberingResolver<SystemResolver>> {
    director: SharedDirector,
    via: Arc<V>,
    resolver: R,
    options: ConnectOptions,
}

impl LinkDialer {
    /// A dialer by `director`, with the system's resolver and the default times. `mptcp`: whether
    /// destinations are offered Multipath TCP.
    pub fn new(director: SharedDirector, mptcp: bool) -> Self {
        let resolver = RememberingResolver::new(SystemResolver::new());
        let options = ConnectOptions::default();
        Self::with(director, TcpVia::new(mptcp), resolver, options)
    }
}

impl<V: Via, R: Resolve> LinkDialer<V, R> {
    /// A dialer with all its parts given.
    pub fn with(director: SharedDirector, via: V, resolver: R, options: ConnectOptions) -> Self {
        Self {
            director,
            via: Arc::new(via),
            resolver,
            options,
        }
    }

    /// Who decides for it.
    pub const fn director(&self) -> &SharedDirector {
        &self.director
    }

    async fn look_up(&self, destination: &Destination) -> Result<Vec<IpAddr>, DialError> {
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
        let addresses = self.resolve(destination).await?;
        let request = resolved(origin.towards(destination), &addresses);
        self.dial_by_links(request, addresses, None).await
    }
}

impl<V: Via, R: Resolve> LinkDial for LinkDialer<V, R> {
    async fn resolve(&self, destination: &Destination) -> Result<Vec<IpAddr>, DialError> {
        self.look_up(destination).await
    }

    async fn dial_by_links(
        &self,
        request: ConnectionRequest,
        addresses: Vec<IpAddr>,
        decision: Option<LinkDecision>,
    ) -> Result<Self::Stream, DialError> {
        let asked = addresses.iter().map(|it| self.via.goes_by_routes(*it));
        let by_routes = join_all(asked).await;
        let decision = decision.unwrap_or_else(|| self.director.decide_links(&request));
        let race = Race::new(
            &self.director,
            &self.via,
            request,
            (addresses, by_routes),
            decision,
        );
        timeout(self.options.timeout, race.run())
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }
}

/// Adds to a request what looking its name up has found: a single address.
pub(crate) fn resolved(request: ConnectionRequest, addresses: &[IpAddr]) -> ConnectionRequest {
    match addresses {
        [only] => ConnectionRequest {
            remote: Some(*only),
            ..request
        },
        _ => request,
    }
}
