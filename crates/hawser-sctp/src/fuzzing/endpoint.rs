//! One endpoint, and packets from strangers and from a peer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use hawser_types::{Instant, LinkIndex};
use hawser_wire::sctp::{
    ChecksumRule, Chunk, CommonHeader, Init, Packet, Parameter, Tsn, VerificationTag,
};

use crate::association::whole_packet;
use crate::{
    Association, AssociationConfig, Checksum, Endpoint, EndpointConfig, Framing, Handled, Local,
    Route,
};

/// Feeds packets to an endpoint with one established association, and to that association.
///
/// Each packet is a byte that selects its tag and what else happens, a length, and that many bytes
/// of chunks. There are no checksums, so that the fuzzer need not find them. The input runs twice:
/// as whole packets, and at an endpoint under a seal, where the association's packets are compact.
pub fn fuzz_endpoint(data: &[u8]) {
    fuzz_framed(Framing::Whole, data);
    fuzz_framed(Framing::Compact, data);
}

fn fuzz_framed(framing: Framing, mut data: &[u8]) {
    let mut world = World::new(framing);
    while let Some(([how, length], rest)) = data.split_first_chunk() {
        let (chunks, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        world.step(*how, chunks);
    }
}

struct World {
    now: Instant,
    framing: Framing,
    endpoint: Endpoint,
    association: Option<Box<Association>>,
    /// Tag of packets to the association.
    tag: VerificationTag,
    /// Tag and cookie of the last INIT ACK.
    given: Option<(VerificationTag, Bytes)>,
}

impl World {
    fn new(framing: Framing) -> Self {
        let config = AssociationConfig {
            checksum: Checksum::LowerLayer,
            framing,
            ..AssociationConfig::default()
        };
        let mut world = Self {
            now: Instant::ZERO,
            framing,
            endpoint: Endpoint::new(EndpointConfig::new(config, &[HERE]), [1; 32], 0),
            association: None,
            tag: VerificationTag::NONE,
            given: None,
        };
        let init = Chunk::Init(Init {
            tag: PEER,
            window: 1 << 16,
            outbound_streams: 10,
            inbound_streams: 10,
            initial_tsn: Tsn::new(1),
            parameters: vec![
                Parameter::ForwardTsnSupported,
                Parameter::SupportedExtensions(vec![0x40, 0x80, 0xC0, 0xC1, 0xC2]),
            ],
        });
        let hello = world.packet(VerificationTag::NONE, Some(init), &[]);
        world.handle(THERE, hello);
        world.bring_cookie(THERE, &[]);
        world
    }

    fn step(&mut self, how: u8, chunks: &[u8]) {
        let tag = match how & 3 {
            0 => self.tag,
            1 => VerificationTag::NONE,
            2 => PEER,
            // The tag of a restart, or an unknown one.
            _ => self.given.as_ref().map_or(STRANGER, |given| given.0),
        };
        let from = if how & 4 == 0 { THERE } else { ELSEWHERE };
        if how & 8 != 0
            && let Some(association) = &mut self.association
        {
            let due = association.poll_timeout();
            self.now = due.map_or(self.now, |at| at.max(self.now));
            association.handle_timeout(self.now);
        }
        let is_compact = self.framing == Framing::Compact && how & 3 == 0;
        if how & 16 != 0 {
            self.bring_cookie(from, chunks);
        } else if is_compact {
            self.handle(from, Bytes::copy_from_slice(chunks));
        } else {
            self.handle(from, self.packet(tag, None, chunks));
        }
        self.drain();
    }

    fn bring_cookie(&mut self, from: SocketAddr, chunks: &[u8]) {
        if let Some((tag, cookie)) = self.given.clone() {
            let echo = Chunk::CookieEcho(cookie);
            let datagram = self.packet(tag, Some(echo), chunks);
            self.handle(from, datagram);
        }
    }

    fn handle(&mut self, from: SocketAddr, datagram: Bytes) {
        let route = Route {
            local: HERE,
            remote: from,
        };
        match self.endpoint.handle_datagram(self.now, route, datagram) {
            Handled::Ignored(_) => {}
            Handled::Reply(transmit) => self.look_at(&transmit.datagram),
            Handled::Accepted(_, association) => {
                self.association = Some(association);
                self.tag = self.given.as_ref().map_or(self.tag, |given| given.0);
            }
            Handled::For(_, packet) => {
                if let Some(association) = &mut self.association {
                    association.handle_packet(self.now, route, &packet);
                }
            }
        }
    }

    /// Sends what is due; a packet must not cause many answers.
    fn drain(&mut self) {
        for count in 0.. {
            let Some(association) = &mut self.association else {
                return;
            };
            while association.receive().is_some() {}
            while association.poll_event().is_some() {}
            let Some(transmit) = association.poll_transmit(self.now) else {
                return;
            };
            assert!(count < MAX_AT_ONCE, "it never stops sending");
            self.look_at(&transmit.datagram);
        }
    }

    /// Builds a whole packet from this chunk and these bytes.
    fn packet(&self, tag: VerificationTag, first: Option<Chunk>, more: &[u8]) -> Bytes {
        let header = CommonHeader {
            source_port: 9,
            destination_port: 9,
            tag,
        };
        let mut writer = whole_packet(self.framing, header);
        if let Some(first) = first {
            writer.put(&first);
        }
        let mut datagram = writer.finish(ChecksumRule::Zero).to_vec();
        datagram.extend_from_slice(more);
        // The writer gives setup packets a checksum anyway.
        let header = match self.framing {
            Framing::Whole => 0,
            Framing::Compact => 4,
        };
        datagram[header + 8..header + 12].fill(0);
        datagram.into()
    }

    /// Keeps tag and cookie of an INIT ACK.
    fn look_at(&mut self, datagram: &Bytes) {
        let packet = match self.framing {
            Framing::Whole => Packet::decode(datagram.clone(), ChecksumRule::Zero),
            Framing::Compact => Packet::decode_sealed(datagram.clone(), None),
        };
        let first = packet.ok().and_then(|packet| packet.chunks().next()?.ok());
        if let Some(Chunk::InitAck(init)) = first {
            let cookie = init.parameters.iter().find_map(|it| match it {
                Parameter::Cookie(cookie) => Some(cookie.clone()),
                _ => None,
            });
            self.given = cookie.map(|cookie| (init.tag, cookie));
        }
    }
}

const PEER: VerificationTag = VerificationTag::new(2);
const STRANGER: VerificationTag = VerificationTag::new(77);
const HERE: Local = Local {
    link: LinkIndex::new(1),
    address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
};
const THERE: SocketAddr = socket([198, 51, 100, 1]);
const ELSEWHERE: SocketAddr = socket([203, 0, 113, 1]);

const fn socket([a, b, c, d]: [u8; 4]) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), 9899)
}

/// Limit of packets in a row, above what any input can cause.
const MAX_AT_ONCE: u32 = 1000;
