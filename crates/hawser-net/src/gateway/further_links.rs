//! The links on which a gateway may begin connections to its clients.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use hawser_link::links::{self, Link, OwnAddresses};

/// The links on which connections to clients may begin, by their names.
#[derive(Debug)]
pub(super) struct Further {
    names: Vec<String>,
    links: watch::Receiver<Arc<Vec<Link>>>,
    own: OwnAddresses,
}

impl Further {
    pub(super) fn new(
        names: Vec<String>,
        links: watch::Receiver<Arc<Vec<Link>>>,
        own: OwnAddresses,
    ) -> Self {
        Self { names, links, own }
    }

    /// Follows the machine's links.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Vec<Link>>> {
        self.links.clone()
    }

    /// True if an address is this machine's now.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(address)
    }

    /// The machine's links with these names that can be used now; none without names.
    pub(super) fn usable(&self, now: &[Link]) -> Vec<Link> {
        if self.names.is_empty() {
            Vec::new()
        } else {
            links::usable(now, &self.names)
        }
    }
}
