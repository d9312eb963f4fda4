//! Connections that go straight over one link or over a gateway, each as it is best for it.

use hawser_net::links::Routes;
use hawser_sched::connection::By;
use tokio::time::Instant;

use crate::bonded::BondDialer;
use crate::connection::{Chosen, Counted, Director, Observe, Origin};
use crate::destination::Destination;
use crate::either::{EitherStream, Loss, dial_either};
use crate::near::{Neighbourhood, Surroundings};
use crate::transport::{DialError, Dialer};

/// Dials by a gateway.
pub trait GatewayDialer: Dialer<Stream: Observe> {
    /// Whether a session with it runs.
    fn is_up(&self) -> bool;
}

/// Dials with `D`, over one link, or by the gateway `G`, as a [`Director`] decides for each
/// connection. None changes its way later.
#[derive(Clone, Debug)]
pub struct ChoiceDialer<D, G, S = Routes> {
    direct: D,
    gateway: G,
    director: Director,
    neighbourhood: Neighbourhood<S>,
}

/// What a [`ChoiceDialer`] opens.
type Stream<D, G> = EitherStream<<D as Dialer>::Stream, Counted<<G as Dialer>::Stream>>;

impl<D: Dialer, G: GatewayDialer> ChoiceDialer<D, G> {
    /// A dialer by `director`, who knows of the gateway. `direct` decides by the same director which
    /// link a connection takes.
    pub fn new(direct: D, gateway: G, director: Director) -> Self {
        Self::in_surroundings(direct, gateway, director, Routes::default())
    }
}

impl<D: Dialer, G: GatewayDialer, S: Surroundings> ChoiceDialer<D, G, S> {
    fn in_surroundings(direct: D, gateway: G, director: Director, surroundings: S) -> Self {
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
        chosen: &Chosen,
    ) -> Result<Counted<G::Stream>, DialError> {
        // Waiting for a session says nothing of what comes then.
        let was_up = self.gateway.is_up();
        let (begun, flow) = (Instant::now(), self.director.open_by_gateway(chosen));
        let dialed = self.gateway.dial_for(destination, origin).await;
        let stream = dialed.inspect_err(|error| flow.failed(*error))?;
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
        let bonded = self.dial_by_gateway(destination, origin, chosen);
        let direct = self.direct.dial_for(destination, origin);
        let on_loss = |loss| match loss {
            Loss::Failed(error) => {
                tracing::debug!(%destination, %error, "the gateway is of no use for this one");
            }
            Loss::Overtaken(waited) => self.director.handle_slow_gateway(waited),
        };
        dial_either(bonded, chosen.patience, direct, on_loss).await
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
        let is_for_all = self.director.is_all_by_gateway();
        let is_near = self.neighbourhood.has(&destination.host, is_for_all).await;
        let chosen = self.director.choose(&origin.towards(destination), is_near);
        let by = match chosen.by {
            // The session has just ended.
            By::Gateway if !chosen.waits_for_gateway && !self.gateway.is_up() => By::Link,
            by => by,
        };
        match by {
            By::Link => {
                let dialed = self.direct.dial_for(destination, origin).await;
                dialed.map(EitherStream::Direct)
            }
            By::Gateway if chosen.waits_for_gateway => {
                let dialed = self.dial_by_gateway(destination, origin, &chosen).await;
                dialed.map(EitherStream::Bonded)
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

#[cfg(test)]
mod tests;
