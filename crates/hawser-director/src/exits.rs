use std::time::Duration;

use hawser_sched::connection::By;
use hawser_types::{ByteCount, Instant, LinkIndex};

use super::charges::{Charge, Charges};
use super::estimates::Estimates;
use super::gateway::GatewayRecord;
use super::links::Links;

/// Route of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Over {
    /// One link, directly to the destination.
    Link(LinkIndex),
    /// The session with the gateway, which uses all links.
    Gateway,
}

/// Exits of this machine: its links, and the gateway if there is one.
#[derive(Debug)]
pub(crate) struct Exits {
    pub(crate) links: Links,
    pub(crate) gateway: Option<Box<GatewayRecord>>,
}

impl Over {
    /// Returns the link; `None` for the gateway.
    pub const fn link(self) -> Option<LinkIndex> {
        match self {
            Self::Link(link) => Some(link),
            Self::Gateway => None,
        }
    }

    /// Returns the kind of route.
    pub const fn by(self) -> By {
        match self {
            Self::Link(_) => By::Link,
            Self::Gateway => By::Gateway,
        }
    }
}

impl Exits {
    /// Returns the estimates and charges of an exit; `None` if it is gone.
    fn parts_mut(&mut self, over: Over) -> Option<(&mut Estimates, &mut Charges)> {
        match over {
            Over::Link(link) => self.links.get_mut(link).map(|record| record.parts_mut()),
            Over::Gateway => self.gateway.as_mut().map(|gateway| gateway.parts_mut()),
        }
    }

    fn all_mut(&mut self) -> impl Iterator<Item = (&mut Estimates, &mut Charges)> {
        let links = self.links.iter_mut().map(|record| record.parts_mut());
        links.chain(self.gateway.iter_mut().map(|gateway| gateway.parts_mut()))
    }

    /// Adds the charge of a connection.
    pub(crate) fn charge(&mut self, over: Over, charge: Charge) {
        if let Some((_, charges)) = self.parts_mut(over) {
            charges.add(charge);
        }
    }

    /// Removes the charge of a connection.
    pub(crate) fn give_back(&mut self, over: Over, charge: Charge) {
        if let Some((_, charges)) = self.parts_mut(over) {
            charges.subtract(charge);
        }
    }

    /// Removes all charges.
    pub(crate) fn clear_charges(&mut self) {
        self.all_mut().for_each(|(_, charges)| charges.clear());
    }

    /// Forgets the queues of exits whose connections have no load left.
    pub(crate) fn forget_queues(&mut self) {
        let empty = self.all_mut().filter(|(_, charges)| charges.is_empty());
        empty.for_each(|(estimates, _)| estimates.on_empty());
    }

    /// Counts an established connection.
    pub(crate) fn on_opened(&mut self, over: Over) {
        if let Some((_, charges)) = self.parts_mut(over) {
            charges.on_opened();
        }
    }

    /// Records the bytes, sent and received, that a transfer moved in this time.
    pub(crate) fn on_transfer(
        &mut self,
        over: Over,
        now: Instant,
        moved: [ByteCount; 2],
        span: Duration,
    ) {
        if let Some((estimates, _)) = self.parts_mut(over) {
            estimates.on_transfer(now, moved, span);
        }
    }

    /// Records a connection's round-trip time.
    pub(crate) fn on_round_trip(&mut self, over: Over, rtt: Duration) {
        if let Some((estimates, _)) = self.parts_mut(over) {
            estimates.on_round_trip(rtt);
        }
    }

    /// Returns the smoothed round-trip time; zero while unknown.
    pub(crate) fn latency(&mut self, over: Over) -> Duration {
        let parts = self.parts_mut(over);
        parts.map_or(Duration::ZERO, |(estimates, _)| estimates.latency())
    }
}
