use hawser_policy::{Class, Protocol};
use hawser_sched::DemandKey;
use hawser_sched::connection::Demand;

use super::sites::Site;

/// What is expected of a connection, from its decision to its end.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) protocol: Protocol,
    pub(crate) key: DemandKey,
    pub(crate) demand: Demand,
    /// Its destination, as far as that is known.
    pub(crate) site: Option<Site>,
}

impl Expected {
    /// True for a call or the like, where people hear every delay.
    pub(crate) fn is_call(&self) -> bool {
        self.demand.class == Class::RealTime
    }

    /// True if the far end acknowledges what is sent, so that it has arrived. Nobody knows what
    /// becomes of datagrams.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.protocol == Protocol::Tcp
    }
}
