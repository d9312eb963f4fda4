use std::net::SocketAddr;

use hawser_wire::sctp::{Tsn, VerificationTag};

use super::identifiers::Identifiers;
use super::offer::{Offer, PeerOffer};

/// The values that both ends have negotiated for an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// Verification tag of packets from the peer.
    pub(crate) local_tag: VerificationTag,
    /// Verification tag of packets to the peer.
    pub(crate) peer_tag: VerificationTag,
    /// TSN of this end's first DATA chunk.
    pub(crate) initial_tsn: Tsn,
    /// TSN of the peer's first DATA chunk.
    pub(crate) peer_initial_tsn: Tsn,
    /// Number of streams that this end may send on, from 1.
    pub(crate) outbound_streams: u16,
    /// Number of streams that the peer may send on, from 1.
    pub(crate) inbound_streams: u16,
    /// Initial receive window of the peer, in bytes.
    pub(crate) peer_window: u32,
    /// This end's SCTP port.
    pub(crate) port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
    /// Addresses of the peer, with the one that the handshake used first: that one is confirmed,
    /// the others are not (RFC 9260 §5.4). At most [`super::MAX_PEER_ADDRESSES`].
    pub(crate) peer_addresses: Vec<SocketAddr>,
    /// Data travels as I-DATA (RFC 8260).
    pub(crate) interleaving: bool,
    /// Messages can be given up (RFC 3758).
    pub(crate) partial_reliability: bool,
    /// Addresses can be added and removed (RFC 5061).
    pub(crate) reconfiguration: bool,
    /// Packets carry no checksum once the association is established (RFC 9653).
    pub(crate) zero_checksum: bool,
}

impl Negotiated {
    /// Combines the offers of both ends. `source`: the address that the peer's offer came from.
    pub(crate) fn agree(
        own: &Offer,
        identifiers: Identifiers,
        peer: &PeerOffer,
        source: SocketAddr,
    ) -> Self {
        let features = own.features.and(peer.features);
        let others = peer
            .addresses
            .iter()
            .map(|it| SocketAddr::new(*it, source.port()));
        Self {
            local_tag: identifiers.tag,
            peer_tag: peer.tag,
            initial_tsn: identifiers.initial_tsn,
            peer_initial_tsn: peer.initial_tsn,
            outbound_streams: own.outbound_streams.min(peer.inbound_streams),
            inbound_streams: own.inbound_streams.min(peer.outbound_streams),
            peer_window: peer.window,
            port: identifiers.port,
            peer_port: identifiers.peer_port,
            peer_addresses: std::iter::once(source).chain(others).collect(),
            interleaving: features.interleaving,
            partial_reliability: features.partial_reliability,
            reconfiguration: features.reconfiguration,
            zero_checksum: features.zero_checksum,
        }
    }
}
