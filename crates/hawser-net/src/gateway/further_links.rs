//! The links that a gateway may begin connections to its clients on.

use std::sync::Arc;

use tokio::sync::watch;

use crate::links::{self, Link};

/// Links that connections to clients may begin on: those with these names.
#[derive(Debug)]
pub(super) struct Further {
    names: Vec<String>,
    links: watch::Receiver<Arc<Vec<Link>>>,
}

impl Further {
    pub(super) fn new(names: Vec<String>, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        Self { names, links }
    }

    /// Follows the machine's links.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Vec<Link>>> {
        self.links.clone()
    }

    /// Those of the machine's links that are meant and can be used now: none where none is named.
    pub(super) fn usable(&self, now: &[Link]) -> Vec<Link> {
        match self.names.is_empty() {
            true => Vec::new(),
            false => links::usable(now, &self.names),
        }
    }
}
