use std::net::SocketAddr;

use hawser_link::inherited;
use hawser_link::links::Link;

/// Chooses the links that have sockets of their own, at the TCP port and at the UDP port alike.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnSockets {
    /// All links if there are several: with a single one there is nothing to choose.
    WhereSeveral,
    /// All links. The predecessor's sockets are bound to links, too, and precede unbound ones.
    Always,
}

impl OwnSockets {
    /// Returns the choice of a process that listens at `addresses`. To be called before the process
    /// takes sockets that are bound to links from a predecessor.
    pub(super) fn needed_at(addresses: &[SocketAddr]) -> Self {
        let mut ports = addresses.iter().map(SocketAddr::port);
        if ports.any(|port| inherited::on_links_at(port).is_some()) {
            Self::Always
        } else {
            Self::WhereSeveral
        }
    }

    /// The links that need a socket of their own.
    pub(super) fn wanted(self, links: &[Link]) -> impl Iterator<Item = &Link> {
        let usable = links.iter().filter(|link| link.why_unusable().is_none());
        let any = matches!(self, Self::Always) || usable.clone().nth(1).is_some();
        usable.filter(move |_| any).take(MAX_LINKS)
    }
}

/// Most links with sockets of their own: a host of containers may have hundreds of interfaces.
pub(super) const MAX_LINKS: usize = 64;
