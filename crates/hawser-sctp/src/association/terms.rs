use std::net::SocketAddr;

use hawser_wire::sctp::{Tsn, VerificationTag};

use super::offer::{Offer, PeerOffer};

/// What both ends know once an association is established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// What the peer's packets have to carry.
    pub(crate) local_tag: VerificationTag,
    /// What packets to the peer have to carry.
    pub(crate) peer_tag: VerificationTag,
    /// This end's first DATA chunk has this number.
    pub(crate) initial_tsn: Tsn,
    /// The peer's first DATA chunk has this number.
    pub(crate) peer_initial_tsn: Tsn,
    /// How many streams this end may send on, from 1.
    pub(crate) outbound_streams: u16,
    /// How many the peer may send on, from 1.
    pub(crate) inbound_streams: u16,
    /// The peer's window at the beginning, in bytes.
    pub(crate) peer_window: u32,
    /// This end's SCTP port.
    pub(crate) port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
    /// Where the peer can be reached, the address that it was reached by first: that one is
    /// confirmed, the others are not (RFC 9260 §5.4). At most [`super::MAX_PEER_ADDRESSES`].
    pub(crate) peer_addresses: Vec<SocketAddr>,
    /// Data travels as I-DATA (RFC 8260).
    pub(crate) interleaving: bool,
    /// Messages can be given up (RFC 3758).
    pub(crate) partial_reliability: bool,
    /// Addresses can be added and removed (RFC 5061).
    pub(crate) reconfiguration: bool,
    /// Packets carry no checksum from now on (RFC 9653).
    pub(crate) zero_checksum: bool,
}

/// What the two ends call themselves in one association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    /// Chosen by this end: what the peer's packets have to carry.
    pub(crate) tag: VerificationTag,
    /// Chosen by this end: the number of its first DATA chunk.
    pub(crate) initial_tsn: Tsn,
    /// This end's SCTP port.
    pub(crate) port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
}

impl Terms {
    /// What follows from what both ends have said. `source`: where the peer said it from.
    pub(crate) fn agree(own: &Offer, names: Names, peer: &PeerOffer, source: SocketAddr) -> Self {
        let features = own.features.and(peer.features);
        let others = peer
            .addresses
            .iter()
            .map(|it| SocketAddr::new(*it, source.port()));
        Self {
            local_tag: names.tag,
            peer_tag: peer.tag,
            initial_tsn: names.initial_tsn,
            peer_initial_tsn: peer.initial_tsn,
            outbound_streams: own.outbound_streams.min(peer.inbound_streams),
            inbound_streams: own.inbound_streams.min(peer.outbound_streams),
            peer_window: peer.window,
            port: names.port,
            peer_port: names.peer_port,
            peer_addresses: std::iter::once(source).chain(others).collect(),
            interleaving: features.interleaving,
            partial_reliability: features.partial_reliability,
            reconfiguration: features.reconfiguration,
            zero_checksum: features.zero_checksum,
        }
    }
}
