use std::net::Ipv6Addr;

use super::*;

const HERE: [u8; 4] = [10, 83, 0, 2];
const THERE: [u8; 4] = [192, 0, 2, 7];
const TCP: u8 = 6;
const UDP: u8 = 17;

fn inbound() -> Inbound {
    let own = ["10.83.0.2/32", "10.83.128.64/26", "fd48::2/128"];
    Inbound::new(
        own.map(|net| net.parse().unwrap()).to_vec(),
        InboundFlows::Refused,
    )
}

/// Returns an IPv4 packet. `fragment`: its flags and fragment offset.
fn fragment(from: [u8; 4], to: [u8; 4], protocol: u8, fragment: u16, transport: &[u8]) -> Bytes {
    let length = (20 + transport.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(&from);
    packet.extend_from_slice(&to);
    packet.extend_from_slice(transport);
    packet.into()
}

fn packet(from: [u8; 4], to: [u8; 4], protocol: u8, transport: &[u8]) -> Bytes {
    fragment(from, to, protocol, 0, transport)
}

/// Returns the beginning of a segment or a datagram.
fn between(from: u16, to: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[..2].copy_from_slice(&from.to_be_bytes());
    header[2..4].copy_from_slice(&to.to_be_bytes());
    header
}

fn is_taken(inbound: &Inbound, packet: Bytes) -> bool {
    let mut packets = vec![packet];
    let refused = inbound.retain(&mut packets);
    assert_eq!(refused, 1 - packets.len() as u64);
    refused == 0
}

#[test]
fn only_what_was_begun_here_comes_back() {
    let inbound = inbound();
    for protocol in [TCP, UDP] {
        let answer = |from, to| packet(THERE, HERE, protocol, &between(from, to));
        assert!(!is_taken(&inbound, answer(443, 5000)));
        inbound.note(&[packet(HERE, THERE, protocol, &between(5000, 443))]);
        assert!(is_taken(&inbound, answer(443, 5000)));
        assert!(is_taken(&inbound, answer(443, 5000)), "and once more");
        assert!(!is_taken(&inbound, answer(443, 80)));
        assert!(!is_taken(&inbound, answer(444, 5000)));
        let others = packet([192, 0, 2, 8], HERE, protocol, &between(443, 5000));
        assert!(!is_taken(&inbound, others));
    }
    // A flow of a protocol without ports is identified by its addresses.
    assert!(!is_taken(&inbound, packet(THERE, HERE, 47, &[0; 4])));
    inbound.note(&[packet(HERE, THERE, 47, &[1; 4])]);
    assert!(is_taken(&inbound, packet(THERE, HERE, 47, &[0; 4])));
}

#[test]
fn no_packet_of_the_gateway_tells_the_kernel_how_to_send() {
    let open = Inbound::new(inbound().own, InboundFlows::Accepted);
    for (kind, taken) in [(8, true), (3, true), (5, false), (9, false), (10, false)] {
        let message = packet(THERE, HERE, ICMP, &[kind, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(is_taken(&open, message), taken, "{kind}");
    }
    let near = packet([169, 254, 0, 1], HERE, UDP, &between(7, 7));
    assert!(!is_taken(&open, near));
    for (kind, taken) in [
        (128, true),
        (2, true),
        (133, false),
        (134, false),
        (137, false),
    ] {
        let message = v6("2600::7", kind);
        assert_eq!(is_taken(&open, message), taken, "{kind}");
    }
    assert!(!is_taken(&open, v6("fe80::1", 128)));
}

/// Returns an ICMPv6 message from an address to the client.
fn v6(from: &str, kind: u8) -> Bytes {
    let [from, to] = [from, "fd48::2"].map(|it| it.parse::<Ipv6Addr>().unwrap().octets());
    let head = [0x60, 0, 0, 0, 0, 8, ICMPV6, 255];
    let message = [kind, 0, 0, 0, 0, 0, 0, 0];
    [&head[..], &from, &to, &message].concat().into()
}

#[test]
fn what_is_for_others_or_from_the_client_itself_is_refused_also_where_flows_may_begin_outside() {
    let own = inbound().own;
    let open = Inbound::new(own, InboundFlows::Accepted);
    let segment = between(443, 80);
    for (from, to, taken) in [
        (THERE, HERE, true),
        (THERE, [10, 83, 128, 70], true),
        (THERE, [10, 83, 0, 3], false),
        (THERE, [127, 0, 0, 1], false),
        (THERE, [255, 255, 255, 255], false),
        (HERE, HERE, false),
        ([10, 83, 128, 70], HERE, false),
        ([127, 0, 0, 1], HERE, false),
        ([0, 0, 0, 0], HERE, false),
        ([224, 0, 0, 1], HERE, false),
        ([255, 255, 255, 255], HERE, false),
    ] {
        let is_taken = is_taken(&open, packet(from, to, TCP, &segment));
        assert_eq!(is_taken, taken, "{from:?} to {to:?}");
    }
    assert!(!is_taken(&open, Bytes::from_static(b"no packet")));
}

#[test]
fn pings_are_answered_to_who_asked_and_errors_come_through() {
    let inbound = inbound();
    let icmp = |kind, id| packet(THERE, HERE, ICMP, &[kind, 0, 0, 0, 0, id, 0, 1]);
    assert!(!is_taken(&inbound, icmp(REPLY_V4, 9)));
    inbound.note(&[packet(HERE, THERE, ICMP, &[ECHO_V4, 0, 0, 0, 0, 9, 0, 1])]);
    assert!(is_taken(&inbound, icmp(REPLY_V4, 9)));
    assert!(!is_taken(&inbound, icmp(REPLY_V4, 8)));
    // A ping to this machine, although with the same numbers; a redirect; an address mask request.
    for kind in [ECHO_V4, 5, 17] {
        assert!(!is_taken(&inbound, icmp(kind, 9)), "{kind}");
    }
    for kind in ERRORS_V4 {
        assert!(is_taken(&inbound, icmp(*kind, 0)), "{kind}");
    }
    // An echo reply of this machine begins no flow.
    inbound.note(&[packet(HERE, THERE, ICMP, &[REPLY_V4, 0, 0, 0, 0, 7, 0, 1])]);
    assert!(!is_taken(&inbound, icmp(REPLY_V4, 7)));
}

#[test]
fn fragments_come_with_the_first_one_of_a_flow() {
    let inbound = inbound();
    let first = |to| fragment(THERE, HERE, UDP, 0x2000, &between(443, to));
    inbound.note(&[packet(HERE, THERE, UDP, &between(5000, 443))]);
    assert!(is_taken(&inbound, first(5000)));
    assert!(!is_taken(&inbound, first(80)));
    assert!(!is_taken(
        &inbound,
        fragment(THERE, HERE, TCP, 0x2000, &[1, 187])
    ));
    assert!(is_taken(
        &inbound,
        fragment(THERE, HERE, UDP, 0x0003, &[0; 8])
    ));
}

#[test]
fn flows_without_end_take_no_more_room_and_those_in_use_stay() {
    let inbound = inbound();
    let kept = packet(HERE, THERE, UDP, &between(5000, 443));
    for n in 0..8 * (SETS * PLACES) as u32 {
        let [a, b, c, d] = n.to_be_bytes();
        let other = packet(HERE, [20 + a, b, c, d], UDP, &between(5000, 443));
        inbound.note(&[other]);
        if n % 1024 == 0 {
            inbound.note(std::slice::from_ref(&kept));
        }
    }
    let answer = packet(THERE, HERE, UDP, &between(443, 5000));
    assert!(is_taken(&inbound, answer));
    let early = packet([20, 0, 0, 1], HERE, UDP, &between(443, 5000));
    assert!(!is_taken(&inbound, early), "what rests goes first");
}
