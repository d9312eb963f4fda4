use hawser_policy::{Class, Protocol};
use hawser_sched::DemandKey;
use hawser_sched::connection::Demand;

use super::sites::Site;

/// Expectations of a connection, from its decision to its end.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) protocol: Protocol,
    pub(crate) key: DemandKey,
    pub(crate) demand: Demand,
    /// Its destination, if known.
    pub(crate) site: Option<Site>,
}

impl Expected {
    /// True for a real-time connection such as a call, in which people notice every delay.
    pub(crate) fn is_call(&self) -> bool {
        self.demand.class == Class::RealTime
    }

    /// True if the far end acknowledges the sent bytes. Datagrams may be lost unnoticed.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.protocol == Protocol::Tcp
    }
}
