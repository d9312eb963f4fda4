use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hawser_sched::rules::Terms;
use hawser_types::LinkIndex;

/// Where packets of this host leave: a link, and one of its addresses.
///
/// Two links may have the same address, so that only both together name the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Local {
    /// The link.
    pub link: LinkIndex,
    /// The source address.
    pub address: IpAddr,
}

/// A pair of addresses: what the paper calls a virtual association is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// This host's end.
    pub local: Local,
    /// The peer's address, with the UDP port that its encapsulated packets come from (RFC 6951).
    pub remote: SocketAddr,
}

/// What the owner knows of a link, and which paths go over it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkWord {
    /// The paths.
    pub place: Place,
    /// Paths with the same link share its queue: how policies tell.
    pub link: LinkIndex,
    /// What the user says of it; `up` is for what this end sends.
    pub terms: Terms,
}

/// Which paths go over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Those over a link of this host.
    Link(LinkIndex),
    /// Those over a link of the peer, as it has named it.
    Peer(LinkIndex),
    /// Those to an address of the peer, whose link it may be.
    Remote(IpAddr),
}

impl Place {
    /// `peer_link`: over which of its links the peer's packets come, where it has said so.
    pub(crate) fn holds(&self, route: &Route, peer_link: Option<LinkIndex>) -> bool {
        match self {
            Self::Peer(link) => peer_link == Some(*link),
            Self::Link(link) => route.local.link == *link,
            Self::Remote(address) => route.remote.ip() == *address,
        }
    }
}

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// From where to where.
    pub route: Route,
    /// The SCTP packet: what UDP carries.
    pub datagram: Bytes,
    /// Routers and this host may cut it into fragments, where packets are otherwise sent in one piece
    /// or not at all: it carries a chunk that is larger than the path is known to take, and what a
    /// chunk is can't be changed once it was sent.
    pub may_fragment: bool,
}

impl Transmit {
    /// A datagram that is not to be cut.
    pub(crate) fn whole(route: Route, datagram: Bytes) -> Self {
        Self {
            route,
            datagram,
            may_fragment: false,
        }
    }
}
