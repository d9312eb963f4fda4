use hawser_wire::sctp::{Cause, Data, DataOrder, StreamNumber, Tsn};
use proptest::prelude::*;

use super::*;
use crate::testing::{route, seconds};
use crate::{Association, AssociationId};

/// Returns an endpoint with one association to a remote peer.
fn with_one() -> (Endpoint, AssociationId, u32) {
    let (endpoint, _, tag) = with_association();
    (endpoint, AssociationId(1), tag)
}

fn with_association() -> (Endpoint, Box<Association>, u32) {
    let mut endpoint = endpoint();
    let answer = good(&mut endpoint);
    match endpoint.handle_datagram(later(), from_away(), echo(&answer)) {
        Handled::Accepted(_, association) => (endpoint, association, answer.tag.value()),
        other => panic!("not accepted: {other:?}"),
    }
}

pub(super) fn data() -> Chunk {
    Chunk::Data(Data {
        tsn: Tsn::new(7),
        stream: StreamNumber::new(0),
        order: DataOrder::Sequence(0),
        unordered: false,
        first: true,
        last: true,
        immediate: false,
        protocol: 0,
        payload: vec![1].into(),
    })
}

#[test]
fn what_is_out_of_the_blue_is_answered_by_its_own_tag_and_never_at_length() {
    for chunk in [
        data(),
        Chunk::Heartbeat(vec![1; 8].into()),
        Chunk::Shutdown(Tsn::new(1)),
    ] {
        let datagram = packet(77, &[chunk]);
        let asked = datagram.len();
        let handled = endpoint().handle_datagram(later(), from_away(), datagram);
        let Handled::Reply(transmit) = handled else {
            panic!("not answered: {handled:?}");
        };
        assert!(transmit.datagram.len() <= asked);
        let sent = Sent::of(&transmit);
        assert_eq!(sent.tag.value(), 77);
        assert_eq!(
            sent.chunks,
            [Chunk::Abort {
                reflected: true,
                causes: vec![]
            }]
        );
    }
}

#[test]
fn a_shutdown_ack_out_of_the_blue_is_completed() {
    let complete = [Chunk::ShutdownComplete { reflected: true }];
    let sent = answer(&mut endpoint(), packet(77, &[Chunk::ShutdownAck])).unwrap();
    assert_eq!((sent.tag.value(), &sent.chunks[..]), (77, &complete[..]));
    // The same holds while this end begins an association with the peer.
    let mut endpoint = endpoint();
    let config = AssociationConfig::default();
    let remotes = [from_away().remote];
    endpoint
        .connect(later(), config, &crate::testing::locals(&[HOME]), &remotes)
        .unwrap();
    let sent = answer(&mut endpoint, packet(77, &[Chunk::ShutdownAck])).unwrap();
    assert_eq!((sent.tag.value(), &sent.chunks[..]), (77, &complete[..]));
}

#[test]
fn answers_are_never_answered() {
    let abort = |reflected| Chunk::Abort {
        reflected,
        causes: vec![],
    };
    let complete = |reflected| Chunk::ShutdownComplete { reflected };
    let stale = Chunk::Error(vec![Cause::StaleCookie(1)]);
    for chunk in [
        abort(false),
        abort(true),
        complete(false),
        complete(true),
        Chunk::CookieAck,
        stale,
    ] {
        assert_eq!(answer(&mut endpoint(), packet(77, &[chunk])), None);
    }
    let hidden = [data(), abort(false)];
    assert_eq!(
        answer(&mut endpoint(), packet(77, &hidden)),
        None,
        "not even behind others"
    );
}

#[test]
fn what_is_out_of_the_blue_is_answered_only_so_often() {
    let mut endpoint = endpoint();
    let datagram = packet(77, &[data()]);
    let mut try_it = |now| endpoint.handle_datagram(now, from_away(), datagram.clone());
    let mut answers = |now| {
        (0..1000)
            .filter(|_| matches!(try_it(now), Handled::Reply(_)))
            .count()
    };
    assert_eq!(
        (answers(later()), answers(later()), answers(seconds(3))),
        (200, 0, 200)
    );
}

#[test]
fn a_flood_of_other_packets_leaves_beginnings_their_answers() {
    let mut endpoint = endpoint();
    let datagram = packet(77, &[data()]);
    let mut answers = 0;
    for count in 0..5000u32 {
        let from = format!("198.{}.{}.1", 51 + (count >> 8), count & 255);
        let handled = endpoint.handle_datagram(later(), route(HOME, &from), datagram.clone());
        answers += usize::from(matches!(handled, Handled::Reply(_)));
    }
    assert_eq!(answers, 1000);
    good(&mut endpoint);
}

#[test]
fn what_has_no_tag_and_is_no_init_is_dropped() {
    for chunk in [
        data(),
        Chunk::ShutdownAck,
        Chunk::CookieEcho(vec![1; 80].into()),
    ] {
        assert_eq!(answer(&mut endpoint(), packet(0, &[chunk])), None);
    }
}

#[test]
fn a_forged_tag_reaches_no_association_and_gets_no_answer() {
    let (mut endpoint, _, tag) = with_one();
    for forged in [tag ^ 1, tag.swap_bytes(), 1, PEER] {
        for chunk in [data(), Chunk::Shutdown(Tsn::new(1)), Chunk::CookieAck] {
            let handled = endpoint.handle_datagram(later(), from_away(), packet(forged, &[chunk]));
            assert_eq!(ignored(handled), Ignored::WrongTag);
        }
        let abort = Chunk::Abort {
            reflected: false,
            causes: vec![],
        };
        let handled = endpoint.handle_datagram(later(), from_away(), packet(forged, &[abort]));
        assert_eq!(ignored(handled), Ignored::WrongTag);
    }
}

#[test]
fn a_tag_finds_its_association_from_anywhere_but_only_by_its_ports() {
    let (mut endpoint, id, tag) = with_one();
    let elsewhere = route(HOME, "203.0.113.77");
    match endpoint.handle_datagram(later(), elsewhere, packet(tag, &[data()])) {
        Handled::For(whose, _) => assert_eq!(whose, id),
        other => panic!("not found: {other:?}"),
    }
    let mut writer = hawser_wire::sctp::PacketWriter::new(
        10,
        9,
        hawser_wire::sctp::VerificationTag::new(tag),
        1000,
    );
    writer.put(&data());
    let datagram = writer.finish(hawser_wire::sctp::ChecksumRule::Crc32c);
    assert!(matches!(
        endpoint.handle_datagram(later(), from_away(), datagram),
        Handled::Reply(_)
    ));
}

#[test]
fn what_reflects_the_peers_tag_finds_the_association_by_its_addresses() {
    let (mut endpoint, id, _) = with_one();
    let moved = "203.0.113.9";
    for chunk in [
        Chunk::Abort {
            reflected: true,
            causes: vec![],
        },
        Chunk::ShutdownComplete { reflected: true },
    ] {
        let datagram = packet(PEER, &[chunk]);
        let mut from = |address: &str| {
            endpoint.handle_datagram(later(), route(HOME, address), datagram.clone())
        };
        assert!(matches!(from(AWAY), Handled::For(whose, _) if whose == id));
        assert_eq!(ignored(from(moved)), Ignored::NoAssociation);
    }
    endpoint.addresses_changed(id, &[crate::testing::socket(moved)]);
    let abort = packet(
        PEER,
        &[Chunk::Abort {
            reflected: true,
            causes: vec![],
        }],
    );
    let mut from =
        |address: &str| endpoint.handle_datagram(later(), route(HOME, address), abort.clone());
    assert!(matches!(from(moved), Handled::For(whose, _) if whose == id));
    assert_eq!(ignored(from(AWAY)), Ignored::NoAssociation);
}

#[test]
fn an_init_from_a_peer_goes_to_its_association() {
    let (mut endpoint, id, _) = with_one();
    let datagram = packet(0, &[Chunk::Init(init(5, vec![]))]);
    let handled = endpoint.handle_datagram(later(), from_away(), datagram);
    assert!(matches!(handled, Handled::For(whose, _) if whose == id));
}

#[test]
fn what_is_forgotten_is_a_stranger() {
    let (mut endpoint, id, tag) = with_one();
    endpoint.forget(id);
    endpoint.forget(id);
    let handled = endpoint.handle_datagram(later(), from_away(), packet(tag, &[data()]));
    assert!(matches!(handled, Handled::Reply(_)));
    assert!(endpoint.is_empty());
}

#[test]
fn broken_packets_are_dropped() {
    let mut broken = packet(77, &[data()]).to_vec();
    broken[13] ^= 1;
    let short = packet(77, &[data()]).slice(..11);
    for datagram in [broken.into(), short, Bytes::new()] {
        let handled = endpoint().handle_datagram(later(), from_away(), datagram);
        assert_eq!(ignored(handled), Ignored::Malformed);
    }
}

/// Chunk types, known and unknown.
fn kind() -> impl Strategy<Value = u8> {
    prop_oneof![
        0u8..16,
        prop::sample::select(vec![64, 128, 130, 132, 192, 193, 194]),
        any::<u8>(),
    ]
}

/// A chunk with a valid header and random content.
fn any_chunk() -> impl Strategy<Value = Vec<u8>> {
    let value = proptest::collection::vec(any::<u8>(), 0..60);
    (kind(), 0u8..16, value).prop_map(|(kind, flags, mut value)| {
        let length = u16::try_from(value.len() + 4).expect("it is short");
        value.resize(value.len().next_multiple_of(4), 0);
        let [high, low] = length.to_be_bytes();
        [&[kind, flags, high, low][..], &value].concat()
    })
}

/// An INIT that may be answered, with random parameters.
fn any_init() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        prop::sample::select(vec![
            5u16, 6, 7, 8, 9, 12, 0x8001, 0x8002, 0x8008, 0xC000, 0xC006, 0xC123, 0x4123, 0x1234,
        ]),
        any::<u16>(),
    ];
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 4),
        proptest::collection::vec(any::<u8>(), 16),
        proptest::collection::vec(any::<u8>(), 0..40),
    ];
    let parameter = (kind, value).prop_map(|(kind, mut value)| {
        let length = u16::try_from(value.len() + 4).expect("it is short");
        value.resize(value.len().next_multiple_of(4), 0);
        [&kind.to_be_bytes()[..], &length.to_be_bytes(), &value].concat()
    });
    proptest::collection::vec(parameter, 0..12).prop_map(|parameters| {
        let parameters = parameters.concat();
        let length = u16::try_from(parameters.len() + 20).expect("it is short");
        let fixed = [0, 0, 0, 2, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 7];
        [&[1, 0][..], &length.to_be_bytes(), &fixed, &parameters].concat()
    })
}

proptest! {
    #[test]
    fn no_answer_to_a_stranger_is_large(
        chunks in prop_oneof![
            any_init(),
            proptest::collection::vec(any_chunk(), 1..4).prop_map(|it| it.concat()),
        ],
        tag in prop::sample::select(vec![0, 77]),
    ) {
        let here: Vec<String> = (1..=15).map(|it| format!("192.0.2.{it}")).collect();
        let here: Vec<&str> = here.iter().map(String::as_str).collect();
        let checksum = crate::Checksum::LowerLayer;
        let config = AssociationConfig { checksum, ..AssociationConfig::default() };
        let config = EndpointConfig::new(config, &crate::testing::locals(&here));
        let datagram = with_checksum(tag, &chunks);
        let asked = datagram.len() + 28;
        let handled = endpoint_with(config).handle_datagram(later(), from_away(), datagram);
        if let Handled::Reply(transmit) = handled {
            let answered = transmit.datagram.len() + 28;
            prop_assert!(answered <= 3 * asked, "{answered} for {asked}");
            prop_assert_eq!(transmit.route, from_away());
        }
    }

    #[test]
    fn arbitrary_packets_are_survived(
        packets in proptest::collection::vec(proptest::collection::vec(any_chunk(), 1..5), 1..20),
        whose in 0usize..4,
    ) {
        let (mut endpoint, mut association, tag) = with_association();
        let tag = [tag, tag, 0, 77][whose];
        let mut now = later();
        for chunks in packets {
            let datagram = with_checksum(tag, &chunks.concat());
            match endpoint.handle_datagram(now, from_away(), datagram) {
                Handled::For(_, packet) => association.handle_packet(now, from_away(), &packet),
                Handled::Accepted(..) => prop_assert!(false, "a cookie was guessed"),
                Handled::Reply(_) | Handled::Ignored(_) => {}
            }
            let mut sent = 0;
            while let Some(transmit) = association.poll_transmit(now) {
                prop_assert!(transmit.datagram.len() <= 1472);
                sent += 1;
                prop_assert!(sent < 50, "it answers one packet by {sent}");
            }
            while association.poll_event().is_some() {}
            while association.receive().is_some() {}
            now = association.poll_timeout().unwrap_or(now).max(now);
            association.handle_timeout(now);
        }
    }
}

fn with_checksum(tag: u32, chunks: &[u8]) -> Bytes {
    let mut datagram = [&[0, 9, 0, 9][..], &tag.to_be_bytes(), &[0; 4], chunks].concat();
    let sum = crc32c(&datagram);
    datagram[8..12].copy_from_slice(&sum.to_le_bytes());
    datagram.into()
}

/// Computes CRC-32c bit by bit: slow, but short.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| {
        if sum & 1 == 1 {
            sum >> 1 ^ 0x82F6_3B78
        } else {
            sum >> 1
        }
    };
    !bytes
        .iter()
        .fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}
