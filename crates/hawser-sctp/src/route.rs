use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hawser_sched::rules::LinkRules;
use hawser_types::LinkIndex;

/// Local end of a path: a link, and one of its addresses.
///
/// Two links may have the same address, so that only both together identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Local {
    /// The link.
    pub link: LinkIndex,
    /// The source address.
    pub address: IpAddr,
}

/// A pair of addresses, which identifies a path (the paper's virtual association).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    /// This host's end.
    pub local: Local,
    /// The peer's address, with the UDP port that its encapsulated packets come from (RFC 6951).
    pub remote: SocketAddr,
}

/// The owner's facts about a link, and the paths that use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkInfo {
    /// The paths that use the link.
    pub paths: PathSelector,
    /// The link, by which policies know that paths share a queue.
    pub link: LinkIndex,
    /// The user's rules for the link; `up` applies to what this end sends.
    pub rules: LinkRules,
}

/// Selector of the paths that use a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathSelector {
    /// Paths over a link of this host.
    Link(LinkIndex),
    /// Paths over a link of the peer, as the peer has announced it.
    Peer(LinkIndex),
    /// Paths to an address of the peer, which identifies the peer's link.
    Remote(IpAddr),
}

impl PathSelector {
    /// Tells whether a path is selected. `peer_link`: the peer's link, if the peer has announced
    /// it.
    pub(crate) fn selects(&self, route: &Route, peer_link: Option<LinkIndex>) -> bool {
        match self {
            Self::Peer(link) => peer_link == Some(*link),
            Self::Link(link) => route.local.link == *link,
            Self::Remote(address) => route.remote.ip() == *address,
        }
    }
}

/// How much room is shown, where the owner places messages and others wait as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// As much as the others have had.
    Own,
    /// All there is.
    Any,
}

/// Messages that the owner still has to place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToPlace {
    /// Nothing.
    #[default]
    Nothing,
    /// Messages that it would not place now: others need not wait for them.
    Later,
    /// Messages that it places as soon as those before have left and others have had as much.
    InTurn,
}

/// A datagram to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Route of the datagram.
    pub route: Route,
    /// The SCTP packet, as UDP payload.
    pub datagram: Bytes,
    /// IP fragmentation is allowed. It is otherwise forbidden; but this datagram has a chunk larger
    /// than the path's packet size, and a chunk cannot change after its first transmission.
    pub may_fragment: bool,
}

impl Transmit {
    /// Creates a datagram that must not be fragmented.
    pub(crate) fn whole(route: Route, datagram: Bytes) -> Self {
        Self {
            route,
            datagram,
            may_fragment: false,
        }
    }
}
