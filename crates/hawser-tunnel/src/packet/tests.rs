use proptest::prelude::*;

use super::samples::{addresses, ip, udp};
use super::*;
use crate::checksum::Sum;

#[test]
fn a_datagram_of_either_version_is_read() {
    for (version, header) in [(4, 20), (6, 40)] {
        let mut bytes = udp(version, (4000, 53), 12);
        bytes.extend_from_slice(&[0; 6]);
        let packet = PacketView::parse(&bytes).unwrap();
        assert_eq!(packet.length(), header + 20);
        assert_eq!(packet.header_length(), header);
        assert_eq!(packet.trailing(), 6);
        assert_eq!(packet.ports(), Some((4000, 53)));
        assert!(!packet.is_fragment() && packet.forbids_fragments());
        let key = packet.flow_key();
        assert_eq!((key.source, key.destination), addresses(version));
        assert_eq!((key.protocol, key.ports), (17, (4000, 53)));
    }
}

#[test]
fn headers_that_contradict_themselves_are_refused() {
    let fault = |bytes: &[u8]| PacketView::parse(bytes).unwrap_err();
    assert_eq!(fault(&[]), PacketFault::Empty);
    assert_eq!(fault(&[0x50; 40]), PacketFault::Version(5));
    for version in [4, 6] {
        let whole = udp(version, (1, 2), 4);
        for end in 1..whole.len() {
            assert_eq!(fault(&whole[..end]), PacketFault::Truncated, "{end}");
        }
    }
    let mut short = udp(4, (1, 2), 4);
    short[0] = 0x44;
    assert_eq!(fault(&short), PacketFault::HeaderLength(16));
    short[0] = 0x4f;
    assert_eq!(fault(&short), PacketFault::HeaderLength(60));
}

#[test]
fn extension_headers_are_passed_and_too_many_refused() {
    // Hop-by-hop options, then destination options of 16 bytes, then UDP.
    let mut transport = vec![60, 0, 1, 4, 0, 0, 0, 0];
    transport.extend_from_slice(&[17, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    transport.extend_from_slice(&[0, 7, 0, 8, 0, 8, 0, 0]);
    let bytes = ip(6, 0, transport);
    let packet = PacketView::parse(&bytes).unwrap();
    assert_eq!(packet.header_length(), 64);
    assert_eq!((packet.protocol(), packet.ports()), (17, Some((7, 8))));

    let endless = ip(6, 0, [0, 0, 1, 4, 0, 0, 0, 0].repeat(20));
    let fault = PacketView::parse(&endless).unwrap_err();
    assert_eq!(fault, PacketFault::ExtensionHeaders(8));
    let beyond = ip(6, 0, vec![17, 9, 0, 0, 0, 0, 0, 0]);
    let fault = PacketView::parse(&beyond).unwrap_err();
    assert_eq!(fault, PacketFault::HeaderLength(80));
}

#[test]
fn fragments_have_one_key_whichever_of_them_has_the_ports() {
    let mut first = udp(4, (5, 6), 16);
    first[6] = 0x20;
    let mut later = udp(4, (5, 6), 16);
    (later[6], later[7]) = (0, 3);
    let [first, later] = [&first, &later].map(|bytes| PacketView::parse(bytes).unwrap());
    assert!(first.is_fragment() && later.is_fragment());
    assert!(first.is_first_fragment() && !later.is_first_fragment());
    assert_eq!(first.flow_key(), later.flow_key());
    assert_eq!(first.ports(), None);

    // The second header of a later fragment would be payload.
    let transport = vec![0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
    let bytes = ip(6, 44, transport);
    let packet = PacketView::parse(&bytes).unwrap();
    assert_eq!((packet.header_length(), packet.protocol()), (48, 0));
    assert!(packet.is_fragment() && !packet.is_first_fragment());
    // Whole in spite of the header.
    let mut transport = vec![17, 0, 0, 0, 0, 0, 0, 1];
    transport.extend_from_slice(&[0, 7, 0, 8, 0, 8, 0, 0]);
    let bytes = ip(6, 44, transport);
    assert_eq!(PacketView::parse(&bytes).unwrap().ports(), Some((7, 8)));
}

#[test]
fn pings_and_security_associations_are_flows() {
    for (version, protocol, kind) in [(4, ICMP, 8), (4, ICMP, 0), (6, ICMPV6, 128)] {
        let bytes = ip(version, protocol, vec![kind, 0, 0, 0, 0x12, 0x34, 0, 1]);
        let key = PacketView::parse(&bytes).unwrap().flow_key();
        assert_eq!(key.ports, (0x1234, 0x1234));
    }
    let unreachable = ip(4, ICMP, vec![3, 4, 0, 0, 0x12, 0x34, 0, 1]);
    let key = PacketView::parse(&unreachable).unwrap().flow_key();
    assert_eq!(key.ports, (0, 0));
    let esp = ip(4, ESP, vec![0, 1, 0, 2, 0, 0, 0, 1]);
    let key = PacketView::parse(&esp).unwrap().flow_key();
    assert_eq!(key.ports, (1, 2));
    let ah = ip(6, AH, vec![6, 4, 0, 0, 0, 3, 0, 4]);
    let key = PacketView::parse(&ah).unwrap().flow_key();
    assert_eq!(key.ports, (3, 4));
}

#[test]
fn a_mark_is_set_where_it_is_understood_and_the_checksum_stays_right() {
    for version in [4, 6] {
        for (ecn, marked) in [(0, false), (1, true), (2, true), (3, true)] {
            let mut bytes = udp(version, (1, 2), 3);
            match version {
                4 => {
                    bytes[1] = 0xb8 | ecn;
                    bytes[10..12].fill(0);
                    let sum = Sum::default().add_bytes(&bytes[..20]).finish();
                    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
                }
                _ => (bytes[0], bytes[1]) = (0x6b, 0x80 | ecn << 4 | 0x0f),
            }
            let before = bytes.clone();
            assert_eq!(mark_congestion(&mut bytes), marked);
            assert_eq!(before == bytes, !marked || ecn == 3);
            let packet = PacketView::parse(&bytes).unwrap();
            assert_eq!(packet.ecn() == Ecn::Congested, marked);
            assert_eq!(packet.dscp(), 46);
            if version == 4 {
                assert_eq!(Sum::default().add_bytes(&bytes[..20]).finish(), 0);
            }
        }
    }
    assert!(!mark_congestion(&mut []));
    assert!(!mark_congestion(&mut [0x45, 3, 0]));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        first in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60), any::<u8>()],
        mut bytes in proptest::collection::vec(any::<u8>(), 0..120),
    ) {
        bytes.insert(0, first);
        if let Ok(packet) = PacketView::parse(&bytes) {
            prop_assert_eq!(packet.length() + packet.trailing(), bytes.len());
            let _ = (packet.flow_key(), packet.ports(), packet.tcp_flags(), packet.transport());
        }
        mark_congestion(&mut bytes);
    }
}
