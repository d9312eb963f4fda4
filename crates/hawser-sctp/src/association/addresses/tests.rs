use bytes::Bytes;
use hawser_wire::sctp::{ChecksumRule, Packet};

use super::*;
use crate::AssociationConfig;
use crate::testing::{accepted, locals, packet, route, seconds};

const HOME: &str = "192.0.2.1";
const AWAY: &str = "198.51.100.1";

/// Creates an association with a peer that supports all that a seal allows; returns it and its tag.
fn sealed() -> (Box<Association>, u32) {
    let config = AssociationConfig {
        checksum: Checksum::LowerLayer,
        ..AssociationConfig::default()
    };
    let offered = vec![
        Parameter::ZeroChecksumAcceptable(1),
        Parameter::SupportedExtensions(vec![0xC1, 0x80]),
    ];
    accepted(config, route(HOME, AWAY), offered)
}

/// Handles a packet from an address; returns the routes of the packets that leave afterwards.
fn hear(association: &mut Association, now: Instant, tag: u32, from: &str) -> Vec<Route> {
    let datagram = packet(tag, &[Chunk::Heartbeat(Bytes::from_static(b"there?"))]);
    let packet = Packet::decode(datagram, ChecksumRule::Zero).unwrap();
    association.handle_packet(now, route(HOME, from), &packet);
    let sent = std::iter::from_fn(|| association.poll_transmit(now));
    sent.map(|transmit| transmit.route).collect()
}

fn is_known(association: &Association, address: &str) -> bool {
    let known = association.peer_addresses();
    known.iter().any(|it| it.ip().to_string() == address)
}

#[test]
fn a_peer_that_roams_for_ever_is_followed_and_where_it_answers_is_kept() {
    let (mut association, tag) = sealed();
    for number in 1..100 {
        let now = seconds(1 + number);
        let from = format!("203.0.113.{number}");
        let asked = hear(&mut association, now, tag, &from);
        assert!(asked.contains(&route(HOME, &from)), "{from} is asked");
        assert!(is_known(&association, &from), "{from}");
        assert!(association.peer_addresses().len() <= MAX_PEER_ADDRESSES);
    }
    assert!(is_known(&association, AWAY), "it answered the handshake");
    assert!(is_known(&association, "203.0.113.98"));
    assert!(
        !is_known(&association, "203.0.113.80"),
        "the oldest go first"
    );
}

#[test]
fn a_packet_that_comes_where_this_host_no_longer_is_adds_nothing() {
    let (mut association, tag) = sealed();
    association.remove_local(seconds(2), locals(&[HOME])[0]);
    hear(&mut association, seconds(2), tag, "203.0.113.1");
    assert!(association.paths(seconds(2)).is_empty());
}

#[test]
fn what_is_to_be_asked_waits_for_a_path_without_waking_anybody() {
    let (mut association, _) = sealed();
    let now = seconds(2);
    association.remove_local(now, locals(&[HOME])[0]);
    while association.poll_transmit(now).is_some() {}
    assert_eq!(association.poll_timeout(), None);
    association.add_local(now, locals(&["192.0.2.7"])[0]);
    let sent = std::iter::from_fn(|| association.poll_transmit(now));
    let packets = sent.map(|it| Packet::decode(it.datagram, ChecksumRule::Zero).unwrap());
    let mut chunks = packets.flat_map(|packet| packet.chunks().map(Result::unwrap));
    assert!(chunks.any(|chunk| matches!(chunk, Chunk::Asconf { .. })));
}
