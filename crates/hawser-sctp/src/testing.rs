//! Helpers shared by tests of association setup.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hawser_types::{Instant, LinkIndex};
use hawser_wire::sctp::{
    ChecksumRule, Chunk, Init, Packet, PacketWriter, Parameter, Tsn, VerificationTag,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::association::SetupContext;
use crate::handshake::{CookieKey, Identifiers, Negotiated};
use crate::{
    Association, AssociationConfig, Endpoint, EndpointConfig, Handled, Local, Route, Transmit,
};

/// A decoded packet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) route: Route,
    pub(crate) tag: VerificationTag,
    pub(crate) chunks: Vec<Chunk>,
}

impl Sent {
    /// Decodes a packet to be sent.
    pub(crate) fn of(transmit: &Transmit) -> Self {
        let packet = Packet::decode(transmit.datagram.clone(), ChecksumRule::Crc32c).unwrap();
        Self {
            route: transmit.route,
            tag: packet.tag,
            chunks: packet.chunks().map(Result::unwrap).collect(),
        }
    }

    /// Returns the packet's INIT ACK.
    pub(crate) fn init_ack(&self) -> &Init {
        match &self.chunks[..] {
            [Chunk::InitAck(init)] => init,
            other => panic!("no INIT ACK: {other:?}"),
        }
    }
}

pub(crate) fn cookie_of(init: &Init) -> Bytes {
    let cookie = init.parameters.iter().find_map(|it| match it {
        Parameter::Cookie(cookie) => Some(cookie.clone()),
        _ => None,
    });
    cookie.expect("an INIT ACK has a cookie")
}

/// Builds a packet with these chunks between the default SCTP ports.
pub(crate) fn packet(tag: u32, chunks: &[Chunk]) -> Bytes {
    let mut writer = PacketWriter::new(9, 9, VerificationTag::new(tag), 60_000);
    for chunk in chunks {
        assert!(writer.put(chunk));
    }
    writer.finish(ChecksumRule::Crc32c)
}

/// Builds a valid INIT.
pub(crate) fn init(tag: u32, parameters: Vec<Parameter>) -> Init {
    Init {
        tag: VerificationTag::new(tag),
        window: 100_000,
        outbound_streams: 10,
        inbound_streams: 20,
        initial_tsn: Tsn::new(7),
        parameters,
    }
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn socket(address: &str) -> SocketAddr {
    SocketAddr::new(ip(address), 9899)
}

/// Returns locals with these addresses on links 1, 2, …
pub(crate) fn locals(addresses: &[&str]) -> Vec<Local> {
    let numbered = addresses.iter().zip(1..);
    numbered
        .map(|(address, link)| Local {
            link: LinkIndex::new(link),
            address: ip(address),
        })
        .collect()
}

pub(crate) fn route(local: &str, remote: &str) -> Route {
    Route {
        local: locals(&[local])[0],
        remote: socket(remote),
    }
}

pub(crate) fn seconds(count: u64) -> Instant {
    Instant::from_nanos(count * 1_000_000_000)
}

pub(crate) fn setup_context(addresses: &[&str]) -> SetupContext {
    SetupContext {
        config: AssociationConfig::default(),
        locals: locals(addresses),
        key: CookieKey::new([7; 32]),
        random: StdRng::seed_from_u64(1),
    }
}

pub(crate) fn names(tag: u32) -> Identifiers {
    Identifiers {
        tag: VerificationTag::new(tag),
        initial_tsn: Tsn::new(50),
        port: 9,
        peer_port: 9,
    }
}

/// Returns an association that a peer has begun over `way` with such an INIT, after its first
/// packets have left; and the tag of packets to it.
pub(crate) fn accepted(
    config: AssociationConfig,
    way: Route,
    parameters: Vec<Parameter>,
) -> (Box<Association>, u32) {
    let now = seconds(1);
    let mut endpoint = Endpoint::new(EndpointConfig::new(config, &[way.local]), [3; 32], 0);
    let hello = packet(0, &[Chunk::Init(init(2, parameters))]);
    let ack = match endpoint.handle_datagram(now, way, hello) {
        Handled::Reply(transmit) => Sent::of(&transmit).init_ack().clone(),
        other => panic!("no answer: {other:?}"),
    };
    let tag = ack.tag.value();
    let echo = packet(tag, &[Chunk::CookieEcho(cookie_of(&ack))]);
    let mut association = match endpoint.handle_datagram(now, way, echo) {
        Handled::Accepted(_, association) => association,
        other => panic!("not accepted: {other:?}"),
    };
    while association.poll_transmit(now).is_some() {}
    (association, tag)
}

/// Returns the result of [`names`] and [`init`].
pub(crate) fn negotiated(tag: u32, peer_tag: u32, peers: &[&str]) -> Negotiated {
    Negotiated {
        local_tag: VerificationTag::new(tag),
        peer_tag: VerificationTag::new(peer_tag),
        initial_tsn: Tsn::new(50),
        peer_initial_tsn: Tsn::new(7),
        outbound_streams: 20,
        inbound_streams: 10,
        peer_window: 100_000,
        port: 9,
        peer_port: 9,
        peer_addresses: peers.iter().map(|it| socket(it)).collect(),
        interleaving: false,
        partial_reliability: false,
        reconfiguration: false,
        zero_checksum: false,
    }
}
