//! Ports that send each flow either straight out or over a gateway, whichever suits the flow.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use hawser_director::{ConnectionRequest, FarEnds, Question, Route};
use hawser_link::links::Routes;
use hawser_policy::Protocol;
use hawser_sched::connection::By;
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::bonded::DEFAULT_IDLE;
use super::questions::Questions;
use super::{DatagramPort, DatagramPorts};
use crate::connection::{Origin, SharedDirector};
use crate::destination::Destination;
use crate::near::{Neighbourhood, Surroundings};
use crate::transport::DialError;

/// Opens UDP ports that send directly and over a gateway. For each flow, a [`SharedDirector`]
/// chooses one of these.
///
/// A flow keeps its way for as long as it is used. Exception: if the session with the gateway is
/// lost, the director chooses again for flows over the gateway that need not wait for it.
pub struct ChoicePorts<S = Routes> {
    direct: Arc<dyn DatagramPorts>,
    gateway: Arc<dyn DatagramPorts>,
    director: SharedDirector,
    neighbourhood: Neighbourhood<S>,
}

impl ChoicePorts {
    /// Creates a factory of ports that send straight by `direct`, or over the gateway of `director`
    /// by `gateway`.
    pub fn new(
        direct: impl DatagramPorts,
        gateway: impl DatagramPorts,
        director: SharedDirector,
    ) -> Self {
        Self::in_surroundings(direct, gateway, director, Routes::default())
    }
}

impl<S: Surroundings> ChoicePorts<S> {
    fn in_surroundings(
        direct: impl DatagramPorts,
        gateway: impl DatagramPorts,
        director: SharedDirector,
        surroundings: S,
    ) -> Self {
        Self {
            direct: Arc::new(direct),
            gateway: Arc::new(gateway),
            director,
            neighbourhood: Neighbourhood::new(Arc::new(surroundings)),
        }
    }
}

impl<S: Surroundings> DatagramPorts for ChoicePorts<S> {
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        let gateway = self.gateway.open(asker.clone());
        // If all flows need the gateway, refuse the port now: sending would be in vain.
        if let (Err(error), true) = (&gateway, self.director.is_all_by_gateway()) {
            return Err(*error);
        }
        Ok(Box::new(ChoicePort {
            direct: self.direct.open(asker.clone())?,
            gateway,
            asker,
            director: self.director.clone(),
            neighbourhood: self.neighbourhood.clone(),
            chosen: BTreeMap::new(),
            questions: Questions::default(),
        }))
    }
}

struct ChoicePort<S> {
    asker: Origin,
    direct: Box<dyn DatagramPort>,
    gateway: Result<Box<dyn DatagramPort>, DialError>,
    director: SharedDirector,
    neighbourhood: Neighbourhood<S>,
    chosen: BTreeMap<Destination, Taken>,
    /// Open questions whether hosts are near.
    questions: Questions<bool>,
}

/// The way that a flow has taken.
#[derive(Clone, Copy)]
struct Taken {
    by: By,
    waits_for_gateway: bool,
    used: Instant,
}

impl<S: Surroundings> DatagramPort for ChoicePort<S> {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        if let Some(by) = self.taken(destination) {
            return self.pass(by, destination, payload);
        }
        let Destination { host, port } = destination;
        let is_for_all = self.director.is_all_by_gateway();
        let (neighbourhood, asked) = (self.neighbourhood.clone(), host.clone());
        self.questions.ask(host, *port, payload, || async move {
            neighbourhood.has(&asked, is_for_all).await
        })
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        while let Poll::Ready((host, is_near, waiting)) = self.questions.poll_answered(cx) {
            for (port, payload) in waiting {
                let destination = Destination::new(host.clone(), port);
                let taken = self.taken(&destination);
                let by = taken.unwrap_or_else(|| self.choose(&destination, is_near));
                self.pass(by, &destination, &payload);
            }
        }
        if let Poll::Ready(from) = self.direct.poll_receive(cx, buffer) {
            return Poll::Ready(from);
        }
        match &mut self.gateway {
            Ok(gateway) => gateway.poll_receive(cx, buffer),
            Err(_) => Poll::Pending,
        }
    }
}

impl<S> ChoicePort<S> {
    /// Returns the way that a flow keeps, if it has one.
    fn taken(&mut self, destination: &Destination) -> Option<By> {
        let taken = self.chosen.get_mut(destination)?;
        let is_held = taken.by == By::Link || taken.waits_for_gateway;
        if !(is_held || self.director.has_session()) || taken.used.elapsed() >= DEFAULT_IDLE {
            return None;
        }
        taken.used = Instant::now();
        Some(taken.by)
    }

    fn choose(&mut self, destination: &Destination, is_near: bool) -> By {
        let request = ConnectionRequest {
            protocol: Protocol::Udp,
            ..self.asker.towards(destination)
        };
        // The direct port looks names up and chooses links for the addresses that it finds.
        let decision = self.director.decide(&Question {
            request: &request,
            is_near: Some(is_near),
            is_resolved: false,
            ends: FarEnds::NONE,
        });
        let decision = match decision {
            Route::Gateway(it) if it.waits_for_gateway || self.gateway.is_ok() => Some(it),
            _ => None,
        };
        if let Some(decision) = &decision {
            self.director
                .with(|director, _| director.tell_by_gateway(decision));
            if let Ok(gateway) = &mut self.gateway {
                gateway.set_call(destination, decision.is_call());
            }
        }
        let waits_for_gateway = decision.as_ref().is_some_and(|it| it.waits_for_gateway);
        let by = decision.map_or(By::Link, |_| By::Gateway);
        if self.chosen.len() >= MAX_FLOWS && !self.chosen.contains_key(destination) {
            let stillest = self.chosen.iter().min_by_key(|(_, taken)| taken.used);
            let stillest = stillest.map(|(destination, _)| destination.clone());
            stillest.and_then(|it| self.chosen.remove(&it));
        }
        let taken = Taken {
            by,
            waits_for_gateway,
            used: Instant::now(),
        };
        self.chosen.insert(destination.clone(), taken);
        by
    }

    fn pass(&mut self, by: By, destination: &Destination, payload: &[u8]) -> bool {
        match (by, &mut self.gateway) {
            (By::Link, _) => self.direct.send(destination, payload),
            (By::Gateway, Ok(gateway)) => gateway.send(destination, payload),
            (By::Gateway, Err(_)) => false,
        }
    }
}

/// More than the flows that either kind of port allows.
const MAX_FLOWS: usize = 2048;
