//! The links that a gateway may begin connections to its clients on.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::links::{self, Link, OwnAddresses};

/// Links that connections to clients may begin on: those with these names.
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

    /// Tells whether an address is this machine's now.
    pub(super) fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(address)
    }

    /// Those of the machine's links that are meant and can be used now: none where none is named.
    pub(super) fn usable(&self, now: &[Link]) -> Vec<Link> {
        if self.names.is_empty() {
            Vec::new()
        } else {
            links::usable(now, &self.names)
        }
    }
}
