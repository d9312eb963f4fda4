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

/// Lets the peer answer heartbeats that reach it at one of `alive`; returns what else leaves.
fn pass(
    association: &mut Association,
    now: Instant,
    tag: u32,
    alive: &[Route],
) -> Vec<(Route, usize)> {
    let mut others = Vec::new();
    association.handle_timeout(now);
    while let Some(transmit) = association.poll_transmit(now) {
        let (route, size) = (transmit.route, transmit.datagram.len());
        if !alive.contains(&route) {
            others.push((route, size));
            continue;
        }
        let sent = Packet::decode(transmit.datagram, ChecksumRule::Zero).unwrap();
        for chunk in sent.chunks().map(Result::unwrap) {
            if let Chunk::Heartbeat(info) = chunk {
                let answer = packet(tag, &[Chunk::HeartbeatAck(info)]);
                let answer = Packet::decode(answer, ChecksumRule::Zero).unwrap();
                association.handle_packet(now, route, &answer);
            }
        }
    }
    others
}

fn port(address: &str, port: u16) -> Route {
    let mut route = route(HOME, address);
    route.remote.set_port(port);
    route
}

/// Handles a heartbeat of the peer that comes over a route; returns its size.
fn come(association: &mut Association, now: Instant, tag: u32, route: Route) -> usize {
    let datagram = packet(tag, &[Chunk::Heartbeat(Bytes::from_static(b"there?"))]);
    let size = datagram.len();
    let packet = Packet::decode(datagram, ChecksumRule::Zero).unwrap();
    association.handle_packet(now, route, &packet);
    size
}

/// The routes that have answered.
fn answering(association: &Association, now: Instant) -> Vec<Route> {
    let paths = association.paths(now).into_iter();
    paths.filter(|it| it.is_active).map(|it| it.route).collect()
}

#[test]
fn a_peer_that_roams_for_ever_is_followed_and_where_it_answers_is_kept() {
    let (mut association, tag) = sealed();
    let mut now = seconds(2);
    for number in 1..50 {
        let here = route(HOME, &format!("203.0.113.{number}"));
        come(&mut association, now, tag, here);
        assert!(!is_known(&association, &here.remote.ip().to_string()));
        for _ in 0..100 {
            pass(&mut association, now, tag, &[route(HOME, AWAY), here]);
            now += std::time::Duration::from_secs(1);
        }
        assert!(
            is_known(&association, &here.remote.ip().to_string()),
            "{here:?}"
        );
        assert!(association.peer_addresses().len() <= MAX_PEER_ADDRESSES);
    }
    assert!(is_known(&association, AWAY), "it answers all the time");
    assert!(is_known(&association, "203.0.113.48"));
    assert!(
        !is_known(&association, "203.0.113.20"),
        "the oldest go first"
    );
}

#[test]
fn a_packet_that_was_sent_on_from_elsewhere_moves_nothing_and_gets_little_back() {
    for elsewhere in [port(AWAY, 4000), route(HOME, "203.0.113.1")] {
        let (mut association, tag) = sealed();
        let home = route(HOME, AWAY);
        let mut now = seconds(2);
        pass(&mut association, now, tag, &[home]);
        let came = come(&mut association, now, tag, elsewhere) + UDP_AND_SEAL;
        let mut sent = 0;
        for _ in 0..300 {
            let stream = hawser_wire::sctp::StreamNumber::new(0);
            let message = crate::Message::new(Bytes::from_static(&[7; 900]));
            let _ = association.send(now, stream, message);
            for (to, size) in pass(&mut association, now, tag, &[home]) {
                assert_eq!(to, elsewhere);
                sent += size + UDP_AND_SEAL;
            }
            now += std::time::Duration::from_millis(100);
        }
        assert!(sent > 0 && sent <= 3 * came, "{sent} for {came}");
        assert_eq!(answering(&association, now), [home]);
        assert_eq!(association.paths(now).len(), 1, "it is forgotten");
        assert_eq!(association.peer_addresses(), [home.remote]);
    }
}

/// Bytes that IPv4, UDP and a seal add to a packet.
const UDP_AND_SEAL: usize = 51;

#[test]
fn packets_sent_on_from_many_places_make_few_paths() {
    let (mut association, tag) = sealed();
    for number in 0..1000 {
        come(
            &mut association,
            seconds(2),
            tag,
            port(AWAY, 10_000 + number),
        );
        let other = format!("203.0.113.{}", number % 250);
        come(&mut association, seconds(2), tag, route(HOME, &other));
    }
    assert!(association.paths(seconds(2)).len() <= 1 + crate::path::MAX_CANDIDATES);
    pass(&mut association, seconds(2), tag, &[route(HOME, AWAY)]);
    assert_eq!(answering(&association, seconds(2)), [route(HOME, AWAY)]);
}

#[test]
fn an_answer_that_comes_from_elsewhere_confirms_nothing() {
    let (mut association, tag) = sealed();
    let (home, elsewhere) = (route(HOME, AWAY), port(AWAY, 4000));
    pass(&mut association, seconds(2), tag, &[home]);
    come(&mut association, seconds(2), tag, elsewhere);
    // The challenge was sent on to the peer, which answers from where it is.
    while let Some(transmit) = association.poll_transmit(seconds(2)) {
        let sent = Packet::decode(transmit.datagram, ChecksumRule::Zero).unwrap();
        for chunk in sent.chunks().map(Result::unwrap) {
            if let Chunk::Heartbeat(info) = chunk {
                let answer = packet(tag, &[Chunk::HeartbeatAck(info)]);
                let answer = Packet::decode(answer, ChecksumRule::Zero).unwrap();
                association.handle_packet(seconds(2), home, &answer);
            }
        }
    }
    assert_eq!(answering(&association, seconds(2)), [home]);
}

/// A translator has given the peer another port: the old one is dead.
#[test]
fn a_port_that_answers_replaces_one_that_is_silent() {
    let (mut association, tag) = sealed();
    let (old, new) = (route(HOME, AWAY), port(AWAY, 4000));
    let mut now = seconds(2);
    pass(&mut association, now, tag, &[old]);
    now = seconds(3);
    come(&mut association, now, tag, new);
    pass(&mut association, now, tag, &[new]);
    assert!(
        answering(&association, now).contains(&new),
        "after one round trip"
    );
    let paths = association.paths(now);
    let old_path = paths.iter().find(|it| it.route == old).unwrap();
    assert!(old_path.is_suspect, "it gets nothing new");
    for _ in 0..20 {
        now += std::time::Duration::from_millis(100);
        pass(&mut association, now, tag, &[new]);
    }
    let routes: Vec<Route> = association.paths(now).iter().map(|it| it.route).collect();
    assert_eq!(routes, [new]);
    assert_eq!(association.peer_addresses(), [new.remote]);
}

/// Two links behind one translator.
#[test]
fn two_ports_that_both_answer_are_two_paths() {
    let (mut association, tag) = sealed();
    let both = [route(HOME, AWAY), port(AWAY, 4000)];
    let mut now = seconds(2);
    pass(&mut association, now, tag, &both);
    come(&mut association, now, tag, both[1]);
    for _ in 0..600 {
        now += std::time::Duration::from_millis(100);
        pass(&mut association, now, tag, &both);
        assert_eq!(answering(&association, now), both);
    }
    assert!(association.paths(now).iter().all(|it| !it.is_suspect));
}

#[test]
fn a_packet_that_comes_where_this_host_no_longer_is_adds_nothing() {
    let (mut association, tag) = sealed();
    association.remove_local(seconds(2), locals(&[HOME])[0]);
    hear(&mut association, seconds(2), tag, "203.0.113.1");
    assert!(association.paths(seconds(2)).is_empty());
}

#[test]
fn what_is_to_be_asked_waits_for_a_path_without_waking_the_caller() {
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
