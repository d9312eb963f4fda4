//! The port on every link: answers leave by the link of the request.
//!
//! A socket that listens everywhere answers by the best route to the client, which need not lead
//! over the link of the request: the provider of another link drops packets with a foreign source
//! address, and a client that has bound its connection to a link accepts no answer from another. A
//! connection inherits the link of the bound socket that accepts it (Linux copies `sk_bound_dev_if`
//! to the request and its child), from the answer to the SYN on. So there is one bound socket for
//! each of several links beside the one for everything else, loopback included; the kernel prefers
//! the bound one. A bound socket that a predecessor has left is served in any case, while its link
//! is there: else connections would wait at it for ever.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;

use super::admit;
use super::port_links::OwnSockets;
use super::shared::GatewayState;
use crate::port_on_links;
use hawser_link::links::Link;
use hawser_link::{bind, inherited};

/// Returns the address of `listener` if it is unspecified (`0.0.0.0`, `[::]`). Single links can
/// then listen on its port as well.
pub(super) fn everywhere(listener: &TcpListener) -> Option<SocketAddr> {
    let address = listener.local_addr().ok()?;
    (address.ip().is_unspecified() && bind::share_port(listener).is_ok()).then_some(address)
}

/// Keeps a socket on each link that needs one of its `own`, for each of `addresses`, until this is
/// dropped.
pub(super) async fn follow(
    shared: Arc<GatewayState>,
    (addresses, own): (Vec<SocketAddr>, OwnSockets),
    links: watch::Receiver<Arc<Vec<Link>>>,
) {
    let serve = |listener| admit::listen(Arc::clone(&shared), listener);
    let at = addresses.clone();
    let wanted = move |now: &[Link]| {
        let is_left = |link: &&Link| at.iter().any(|it| inherited::has_on_link(*it, link.index));
        let left = now.iter().filter(is_left);
        own.wanted(now).chain(left).cloned().collect()
    };
    port_on_links::follow(addresses, links, wanted, serve).await;
}
