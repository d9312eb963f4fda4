//! The port on every link: answers leave by the link that was asked.
//!
//! A socket that listens everywhere answers by the best route to the client, which need not lead
//! over the link that the question came by: the provider of another link drops what bears a foreign
//! source address, and a client that has bound its connection to a link takes no answer from
//! another. A connection accepted by a socket that is bound to a link inherits that (Linux copies
//! `sk_bound_dev_if` to the request and its child), from the answer to the SYN on. So there is one
//! bound socket for each of several links beside the one for everything else, loopback included;
//! the kernel prefers the bound one.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_types::LinkIndex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::admit;
use super::port_links::wanted;
use super::shared::Shared;
use crate::bind;
use crate::links::Link;

/// The address that `listener` listens on, when that is every address; its port can then be
/// listened on for single links as well.
pub(super) fn everywhere(listener: &TcpListener) -> Option<SocketAddr> {
    let address = listener.local_addr().ok()?;
    (address.ip().is_unspecified() && bind::share_port(listener).is_ok()).then_some(address)
}

/// Keeps a socket on each of several links for each of `addresses`, for as long as it is not
/// dropped.
pub(super) async fn follow(
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    mut links: watch::Receiver<Arc<Vec<Link>>>,
) {
    let mut tasks = JoinSet::new();
    let mut open: BTreeMap<LinkIndex, Vec<AbortHandle>> = BTreeMap::new();
    loop {
        let now = Arc::clone(&links.borrow_and_update());
        open.retain(|index, listening| {
            // A link that is down for a while keeps its connections, and what they came by.
            let is_there = now.iter().any(|link| link.index == *index);
            if !is_there {
                listening.iter().for_each(AbortHandle::abort);
            }
            is_there
        });
        for link in wanted(&now) {
            open.entry(link.index).or_insert_with(|| {
                let listeners = addresses.iter().filter_map(|at| listen(*at, link));
                listeners
                    .map(|listener| tasks.spawn(admit::listen(Arc::clone(&shared), listener)))
                    .collect()
            });
        }
        while tasks.try_join_next().is_some() {}
        if links.changed().await.is_err() {
            // The links are not followed any more: what is there stays.
            return std::future::pending().await;
        }
    }
}

fn listen(address: SocketAddr, link: &Link) -> Option<TcpListener> {
    match bind::listen_on_link(address, link.index) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::debug!(link = %link.name, %error, "its answers leave by the best route");
            None
        }
    }
}
