//! Ports whose flows go straight or over a gateway, each as it is best for it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use hawser_policy::Protocol;
use hawser_sched::connection::By;
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::{DatagramPort, DatagramPorts};
use crate::connection::{Director, Origin};
use crate::destination::{Destination, Host};
use crate::gateway::is_public;
use crate::transport::DialError;

/// Ports of two kinds, of which a [`Director`] chooses for each flow.
///
/// A flow keeps to its way, but for one over a gateway that is not the only one for it: when the
/// session is gone, it is asked for again.
pub struct ChoicePorts {
    direct: Arc<dyn DatagramPorts>,
    gateway: Arc<dyn DatagramPorts>,
    director: Director,
}

impl ChoicePorts {
    /// Ports that go straight by `direct`, or over a gateway by `gateway`, which `director` knows of.
    pub fn new(
        direct: impl DatagramPorts,
        gateway: impl DatagramPorts,
        director: Director,
    ) -> Self {
        Self {
            direct: Arc::new(direct),
            gateway: Arc::new(gateway),
            director,
        }
    }
}

impl DatagramPorts for ChoicePorts {
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        let gateway = self.gateway.open(asker.clone());
        // Who can say so at once is not to send in vain.
        if let (Err(error), true) = (&gateway, self.director.is_all_by_gateway()) {
            return Err(*error);
        }
        Ok(Box::new(ChoicePort {
            direct: self.direct.open(asker.clone())?,
            gateway,
            asker,
            director: self.director.clone(),
            chosen: BTreeMap::new(),
        }))
    }
}

struct ChoicePort {
    asker: Origin,
    direct: Box<dyn DatagramPort>,
    gateway: Result<Box<dyn DatagramPort>, DialError>,
    director: Director,
    chosen: BTreeMap<Destination, Taken>,
}

/// The way that a flow has taken.
#[derive(Clone, Copy)]
struct Taken {
    by: By,
    is_only: bool,
    used: Instant,
}

impl DatagramPort for ChoicePort {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        match (self.way(destination), &mut self.gateway) {
            (By::Link, _) => self.direct.send(destination, payload),
            (By::Gateway, Ok(gateway)) => gateway.send(destination, payload),
            (By::Gateway, Err(_)) => false,
        }
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        if let Poll::Ready(from) = self.direct.poll_receive(cx, buffer) {
            return Poll::Ready(from);
        }
        match &mut self.gateway {
            Ok(gateway) => gateway.poll_receive(cx, buffer),
            Err(_) => Poll::Pending,
        }
    }
}

impl ChoicePort {
    fn way(&mut self, destination: &Destination) -> By {
        let now = Instant::now();
        if let Some(taken) = self.chosen.get_mut(destination)
            && (taken.by == By::Link || taken.is_only || self.director.has_session())
        {
            taken.used = now;
            return taken.by;
        }
        let taken = self.choose(destination, now);
        if self.chosen.len() >= MAX_FLOWS && !self.chosen.contains_key(destination) {
            let stillest = self.chosen.iter().min_by_key(|(_, taken)| taken.used);
            let stillest = stillest.map(|(destination, _)| destination.clone());
            stillest.and_then(|it| self.chosen.remove(&it));
        }
        self.chosen.insert(destination.clone(), taken);
        taken.by
    }

    fn choose(&self, destination: &Destination, now: Instant) -> Taken {
        let origin = Origin {
            protocol: Protocol::Udp,
            ..self.asker.towards(destination)
        };
        let is_near = match &destination.host {
            // Nor would a gateway go there, unless it was told to.
            Host::Ip(address) => !is_public(address.to_canonical()),
            Host::Name(_) => false,
        };
        // A gateway for everything may have been told to.
        let is_near = is_near && !self.director.is_all_by_gateway();
        let chosen = self.director.choose(&origin, is_near);
        let is_only = chosen.is_only;
        let by = match chosen.by {
            By::Gateway if self.gateway.is_err() && !is_only => By::Link,
            by => by,
        };
        Taken {
            by,
            is_only,
            used: now,
        }
    }
}

/// More than either kind of port has.
const MAX_FLOWS: usize = 2048;
