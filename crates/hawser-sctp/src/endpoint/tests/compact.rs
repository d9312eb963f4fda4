//! Compact packets.

use bytes::BytesMut;
use hawser_wire::sctp::{ChecksumRule, CommonHeader, Packet, PacketWriter, StreamNumber, Tsn};

use super::whole::{Host, Net, arrives};
use super::*;
use crate::{Checksum, Closed, Event, Framing, Message};

fn sealed() -> AssociationConfig {
    AssociationConfig {
        checksum: Checksum::LowerLayer,
        framing: Framing::Compact,
        max_packet: LARGEST,
        ..AssociationConfig::default()
    }
}

fn net() -> Net {
    let mut net = Net::new();
    net.hosts = [Host::with(HOME, 1, sealed()), Host::with(AWAY, 2, sealed())];
    net.connect(0);
    net.settle(&mut arrives);
    net
}

/// Builds a packet with a SACK.
fn sack(mut writer: PacketWriter) -> Bytes {
    let sack = hawser_wire::sctp::Sack {
        cumulative: Tsn::new(1),
        ..Default::default()
    };
    assert!(writer.put(&Chunk::Sack(sack)));
    writer.finish(ChecksumRule::Zero)
}

fn is_whole(datagram: &[u8]) -> bool {
    datagram.starts_with(&[0xff, 0, 0, 0])
}

#[test]
fn only_what_begins_and_ends_an_association_is_whole() {
    let mut net = Net::new();
    net.hosts = [Host::with(HOME, 1, sealed()), Host::with(AWAY, 2, sealed())];
    net.connect(0);
    let now = net.now;
    let init = net.hosts[0].drain(now);
    assert!(!init.is_empty() && init.iter().all(|it| is_whole(&it.datagram)));
    for sent in init {
        net.deliver(1, sent.datagram);
    }
    net.settle(&mut arrives);
    net.say(0, 7);
    let sent = net.hosts[0].drain(now);
    assert_eq!(sent.len(), 1);
    assert!(!is_whole(&sent[0].datagram));
    for sent in sent {
        net.deliver(1, sent.datagram);
    }
    net.settle(&mut arrives);
    assert_eq!(net.hosts[1].only_message()[..], [7; 10]);
    net.exchange();
    let now = net.now;
    net.hosts[0].only().shutdown(now);
    let sent = net.hosts[0].drain(now);
    assert!(sent.iter().any(|it| is_whole(&it.datagram)));
    for sent in sent {
        net.deliver(1, sent.datagram);
    }
    net.run(&mut arrives, |net| net.hosts.iter().all(Host::is_closed));
    for host in &net.hosts {
        assert_eq!(host.events.last(), Some(&Event::Closed(Closed::Shutdown)));
    }
}

#[test]
fn full_packets_have_the_largest_size_to_the_byte() {
    let mut net = net();
    // Within a round trip the other end knows.
    net.settle(&mut arrives);
    let now = net.now;
    let message = Message {
        unordered: true,
        ..Message::new(vec![5; 100_000].into())
    };
    let sent = net.hosts[1].only().send(now, StreamNumber::new(1), message);
    assert_eq!(sent, Ok(()));
    let sizes: Vec<usize> = std::iter::from_fn(|| net.hosts[1].only().poll_transmit(now))
        .map(|it| it.datagram.len())
        .collect();
    assert!(sizes.len() > 3);
    assert!(sizes.iter().all(|size| *size == LARGEST), "{sizes:?}");
}

#[test]
fn a_peer_that_has_forgotten_ends_it_by_the_tag_that_was_left_out() {
    let mut net = net();
    net.hosts[1].only().abort(Bytes::new());
    let now = net.now;
    // The packet that reports the end is lost.
    assert!(!net.hosts[1].drain(now).is_empty());
    assert!(net.hosts[1].is_closed());
    net.say(0, 1);
    net.settle(&mut arrives);
    let ended = Event::Closed(Closed::AbortedByPeer(Bytes::new()));
    assert_eq!(net.hosts[0].events.last(), Some(&ended));
}

#[test]
fn it_never_begins_anew() {
    let mut net = net();
    net.hosts[0] = Host::with(HOME, 10, sealed());
    net.connect(0);
    net.run(&mut arrives, |net| net.hosts[0].is_closed());
    assert_eq!(net.hosts[0].count(&Event::Established), 0);
    assert_eq!(net.hosts[1].count(&Event::Restarted), 0);
}

#[test]
fn a_compact_packet_before_there_is_an_association_is_dropped() {
    let config = EndpointConfig::new(sealed(), &locals(&[HOME]));
    let mut endpoint = endpoint_with(config);
    let compact = sack(PacketWriter::compact(BytesMut::new(), 100));
    let handled = endpoint.handle_datagram(later(), from_away(), compact.clone());
    assert_eq!(ignored(handled), Ignored::Malformed);
    // A whole packet is out of the blue, and answered as elsewhere.
    let names = CommonHeader {
        source_port: 9,
        destination_port: 9,
        tag: Tag::new(77),
    };
    let whole = sack(PacketWriter::sealed(BytesMut::new(), names, 100));
    match endpoint.handle_datagram(later(), from_away(), whole) {
        Handled::Reply(transmit) => {
            let packet = Packet::decode_sealed(transmit.datagram, None).unwrap();
            assert_eq!(packet.tag, Tag::new(77));
        }
        other => panic!("no answer: {other:?}"),
    }
    // Without a seal a compact packet belongs to no association.
    let mut plain = self::endpoint();
    let handled = plain.handle_datagram(later(), from_away(), compact);
    assert_eq!(ignored(handled), Ignored::Malformed);
}

type Tag = hawser_wire::sctp::VerificationTag;
/// Space that IPv4, UDP and a seal leave of 1500 bytes.
const LARGEST: usize = 1449;
