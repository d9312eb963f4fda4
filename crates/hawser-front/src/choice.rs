//! Connections that go straight over one link or over a gateway, each as it is best for it.

use hawser_director::{Decision, GatewayDecision, Question};
use hawser_net::links::Routes;
use tokio::time::Instant;

use crate::bonded::BondDialer;
use crate::connection::{Counted, LinkDial, Observe, Origin, SharedDirector, resolved};
use crate::destination::{Destination, Host};
use crate::either::{EitherStream, Loss, dial_either};
use crate::near::{Neighbourhood, Surroundings};
use crate::transport::{DialError, Dialer};

/// Dials by a gateway.
pub trait GatewayDialer: Dialer<Stream: Observe> {
    /// Whether a session with it runs.
    fn is_up(&self) -> bool;
}

/// Dials with `D`, over one link, or by the gateway `G`, as a [`SharedDirector`] decides for each
/// connection. None changes its way later.
#[derive(Clone, Debug)]
pub struct ChoiceDialer<D, G, S = Routes> {
    direct: D,
    gateway: G,
    director: SharedDirector,
    neighbourhood: Neighbourhood<S>,
}

/// What a [`ChoiceDialer`] opens.
type Stream<D, G> = EitherStream<<D as Dialer>::Stream, Counted<<G as Dialer>::Stream>>;

impl<D: LinkDial, G: GatewayDialer> ChoiceDialer<D, G> {
    /// A dialer by `director`, which knows of the gateway. `direct` asks the same director.
    pub fn new(direct: D, gateway: G, director: SharedDirector) -> Self {
        Self::in_surroundings(direct, gateway, director, Routes::default())
    }
}

impl<D: LinkDial, G: GatewayDialer, S: Surroundings> ChoiceDialer<D, G, S> {
    fn in_surroundings(direct: D, gateway: G, director: SharedDirector, surroundings: S) -> Self {
        Self {
            direct,
            gateway,
            director,
            neighbourhood: Neighbourhood::new(surroundings),
        }
    }

    async fn dial_by_gateway(
        &self,
        destination: &Destination,
        origin: &Origin,
        decision: &GatewayDecision,
    ) -> Result<Counted<G::Stream>, DialError> {
        // Waiting for a session says nothing of what comes then.
        let was_up = self.gateway.is_up();
        let (begun, flow) = (Instant::now(), self.director.open_by_gateway(decision));
        let dialed = self.gateway.dial_for(destination, origin).await;
        let stream = dialed.inspect_err(|error| flow.failed(*error))?;
        flow.connected(was_up.then(|| begun.elapsed()));
        Ok(Counted::new(stream, Some(flow)))
    }

    /// Dials by the gateway, and where that may fail over a link as well.
    async fn dial_over_gateway(
        &self,
        destination: &Destination,
        origin: &Origin,
        decision: &GatewayDecision,
    ) -> Result<Stream<D, G>, DialError> {
        if decision.waits_for_gateway {
            let dialed = self.dial_by_gateway(destination, origin, decision).await;
            return dialed.map(EitherStream::Bonded);
        }
        // The session may have just ended.
        if !self.gateway.is_up() {
            let dialed = self.direct.dial_for(destination, origin).await;
            return dialed.map(EitherStream::Direct);
        }
        self.dial_by_either(destination, origin, decision).await
    }

    /// Dials by the gateway, and soon over a link as well; the first that is answered is it.
    async fn dial_by_either(
        &self,
        destination: &Destination,
        origin: &Origin,
        decision: &GatewayDecision,
    ) -> Result<Stream<D, G>, DialError> {
        let bonded = self.dial_by_gateway(destination, origin, decision);
        let direct = self.direct.dial_for(destination, origin);
        let on_loss = |loss| match loss {
            Loss::Failed(error) => {
                tracing::debug!(%destination, %error, "the gateway is of no use for this one");
            }
            Loss::Overtaken(waited) => {
                self.director
                    .with(|director, _| director.handle_slow_gateway(waited));
            }
        };
        dial_either(bonded, decision.patience, direct, on_loss).await
    }
}

impl<D: LinkDial, G: GatewayDialer, S: Surroundings> Dialer for ChoiceDialer<D, G, S> {
    type Stream = Stream<D, G>;

    async fn dial(&self, destination: &Destination) -> Result<Self::Stream, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Self::Stream, DialError> {
        let is_for_all = self.director.is_all_by_gateway();
        let is_near = self.neighbourhood.has(&destination.host, is_for_all).await;
        let mut addresses = match &destination.host {
            Host::Ip(address) => Some(vec![address.to_canonical()]),
            Host::Name(_) => None,
        };
        let known = addresses.as_deref().unwrap_or_default();
        let mut request = resolved(origin.towards(destination), known);
        loop {
            let decision = self.director.decide(&Question {
                request: &request,
                is_near,
                is_resolved: addresses.is_some(),
            });
            match (decision, addresses) {
                (Decision::Gateway(decision), _) => {
                    return self.dial_over_gateway(destination, origin, &decision).await;
                }
                (Decision::Links(decision), Some(addresses)) => {
                    let direct = &self.direct;
                    let dialed = direct.dial_by_links(request, addresses, Some(decision));
                    return dialed.await.map(EitherStream::Direct);
                }
                // Not the gateway's, as far as the name says: its addresses may say more.
                _ => {
                    let found = self.direct.resolve(destination).await?;
                    request = resolved(request, &found);
                    addresses = Some(found);
                }
            }
        }
    }
}

impl GatewayDialer for BondDialer {
    fn is_up(&self) -> bool {
        self.client().is_admitted()
    }
}

#[cfg(test)]
mod tests;
