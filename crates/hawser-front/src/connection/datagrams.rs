use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_director::{AddressRoute, ConnectionRequest, LinkDecision};
use hawser_link::links::{Link, Routes};
use hawser_policy::Protocol;
use hawser_types::{ByteCount, LinkIndex};

use super::{Flow, SharedDirector};
use crate::datagram::{Books, PlaceFlows, Placement, Target};
use crate::destination::{Destination, Host};
use crate::transport::DialError;

/// Places flows of datagrams on links as a [`SharedDirector`] decides, each flow like a connection.
///
/// Source: DBAS §II (the connection-oriented mode's unit is the flow).
#[derive(Debug)]
pub struct DatagramPlace {
    director: SharedDirector,
    routes: Routes,
}

impl DatagramPlace {
    /// Creates a place for flows that `director` decides on.
    pub fn new(director: SharedDirector) -> Self {
        Self {
            director,
            routes: Routes::default(),
        }
    }

    fn unreachable(&self, decision: &LinkDecision) -> DialError {
        let error = DialError::NetworkUnreachable;
        self.director
            .with(|director, _| director.note_failure(decision, error));
        error
    }
}

impl PlaceFlows for DatagramPlace {
    type Books = Option<Flow>;

    fn place(
        &self,
        target: Target<'_>,
        tried: &[LinkIndex],
    ) -> Result<Placement<Option<Flow>>, DialError> {
        let address = target.remote.ip();
        let by_system = Placement {
            link: None,
            books: None,
        };
        if target.by_routes {
            return Ok(by_system);
        }
        let destination = Destination::new(Host::Ip(address), target.remote.port());
        let request = ConnectionRequest {
            protocol: Protocol::Udp,
            domain: target.domain.map(|name| name.as_str().to_owned()),
            ..target.asker.towards(&destination)
        };
        let decision = self.director.decide_links(&request);
        match decision.route(address) {
            AddressRoute::Links => {}
            AddressRoute::System => {
                self.director
                    .with(|director, now| director.note_by_system(now, &decision));
                return Ok(by_system);
            }
            AddressRoute::Closed => return Err(self.unreachable(&decision)),
        }
        let mut open = decision.candidates.iter().filter(|it| {
            let is_new = !tried.contains(&it.link.index);
            is_new && it.leads_to(address)
        });
        let candidate = open.next();
        let link = &candidate.ok_or_else(|| self.unreachable(&decision))?.link;
        let flow = self.director.open(&decision, link.index);
        Ok(Placement {
            link: Some(Arc::clone(link)),
            books: Some(flow),
        })
    }

    async fn goes_by_routes(&self, address: IpAddr) -> bool {
        self.routes.is_particular(address).await
    }

    fn stays(&self, link: &Link, remote: IpAddr) -> bool {
        self.director.carries(link, remote)
    }

    fn is_suspect(&self, link: LinkIndex) -> bool {
        !self.director.with(|director, _| director.is_hopeful(link))
    }

    fn on_miss(&self, link: LinkIndex, waited: Duration) {
        self.director
            .with(|director, now| director.handle_miss(now, link, waited));
    }
}

impl Books for Option<Flow> {
    fn on_answer(&self) {
        if let Some(flow) = self {
            // Without a latency: it would depend on the server as much as on the link.
            flow.connected(None);
        }
    }

    fn on_moved(&self, up: ByteCount, down: ByteCount) {
        if let Some(flow) = self {
            flow.moved(up, down);
        }
    }
}
