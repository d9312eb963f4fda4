use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::join_all;
use hawser_director::ConnectionRequest;
use tokio::time::timeout;

use super::counted::Counted;
use super::race::{Decided, Race, Targets};
use super::via::{TcpVia, Via};
use super::{LinkResolver, RememberingResolver, SharedDirector};
use crate::connect::{ConnectOptions, interleave};
use crate::destination::Destination;
use crate::resolve::{Resolve, addresses_of};
use crate::transport::DialError;

/// Opens connections over links as a director decides, with `V` to connect and `R` to resolve
/// names.
#[derive(Debug)]
pub(crate) struct OverLinks<V = TcpVia, R = RememberingResolver<LinkResolver>> {
    director: SharedDirector,
    via: Arc<V>,
    resolver: R,
    options: ConnectOptions,
}

impl<V: Via, R: Resolve> OverLinks<V, R> {
    pub(crate) fn new(
        director: SharedDirector,
        via: V,
        resolver: R,
        options: ConnectOptions,
    ) -> Self {
        Self {
            director,
            via: Arc::new(via),
            resolver,
            options,
        }
    }

    /// Returns the director.
    pub(crate) const fn director(&self) -> &SharedDirector {
        &self.director
    }

    /// Returns the object that makes the connections.
    pub(crate) const fn via(&self) -> &Arc<V> {
        &self.via
    }

    /// Looks up a destination's name.
    pub(crate) async fn resolve(
        &self,
        destination: &Destination,
    ) -> Result<Vec<IpAddr>, DialError> {
        let lookup = addresses_of(&self.resolver, &destination.host);
        let addresses = timeout(self.options.resolve_timeout, lookup).await;
        let addresses = addresses.unwrap_or(Err(DialError::ResolverUnavailable))?;
        let canonical: Vec<_> = addresses.iter().map(IpAddr::to_canonical).collect();
        Ok(interleave(&canonical))
    }

    /// Dials those of `addresses` that links lead to, as the director decides. Handshakes with
    /// those in `asks_bond` ask for a bond.
    pub(crate) async fn dial(
        &self,
        request: ConnectionRequest,
        addresses: Vec<IpAddr>,
        asks_bond: Vec<IpAddr>,
    ) -> Result<Counted<V::Stream>, DialError> {
        let changes = self.director.changes();
        let decision = self.director.decide_links(&request);
        let decided = Decided {
            decision,
            changes,
            asks_bond,
        };
        self.dial_decided(request, addresses, decided).await
    }

    /// Dials those of `addresses` that a decision leads to.
    pub(crate) async fn dial_decided(
        &self,
        request: ConnectionRequest,
        addresses: Vec<IpAddr>,
        decided: Decided,
    ) -> Result<Counted<V::Stream>, DialError> {
        let asked = addresses.iter().map(|it| self.via.is_near(*it));
        let by_routes = join_all(asked).await;
        let targets = Targets {
            request,
            addresses,
            by_routes,
        };
        let race = Race::new(&self.director, &self.via, targets, decided);
        timeout(self.options.timeout, race.run())
            .await
            .unwrap_or(Err(DialError::TimedOut))
    }
}

/// Adds the result of the name lookup to a request, if that is a single address.
pub(crate) fn resolved(request: ConnectionRequest, addresses: &[IpAddr]) -> ConnectionRequest {
    match addresses {
        [only] => ConnectionRequest {
            remote: Some(*only),
            ..request
        },
        _ => request,
    }
}
