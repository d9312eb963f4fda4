use hawser_wire::sctp::{Cause, Parameter, Tsn, UnknownAction, VerificationTag};

use super::*;
use crate::handshake::{MAX_PEER_ADDRESSES, Negotiated};
use crate::testing::{cookie_of, ip, seconds, socket};

/// Returns the values in the cookie.
fn negotiated_of(endpoint: &Endpoint, answer: &Init) -> Negotiated {
    endpoint.key.open(&cookie_of(answer)).unwrap().negotiated
}

/// Returns the addresses accepted from an INIT that lists these.
fn taken(from: &str, listed: &[&str]) -> Vec<std::net::IpAddr> {
    let mut endpoint = endpoint();
    let listed = listed.iter().map(|it| Parameter::Address(ip(it))).collect();
    let answer = init_ack(&mut endpoint, route(HOME, from), init(PEER, listed));
    let addresses = negotiated_of(&endpoint, &answer).peer_addresses;
    assert_eq!(addresses[0], socket(from));
    addresses[1..].iter().map(|it| it.ip()).collect()
}

#[test]
fn a_flood_of_inits_leaves_nothing_behind_and_few_answers() {
    let mut endpoint = endpoint();
    let mut answers = 0;
    for count in 0..100_000u32 {
        let from = format!(
            "198.{}.{}.{}",
            count >> 16 & 3,
            count >> 8 & 255,
            count & 255
        );
        let datagram = packet(0, &[Chunk::Init(init(count + 1, vec![]))]);
        match endpoint.handle_datagram(later(), route(HOME, &from), datagram) {
            Handled::Reply(_) => answers += 1,
            other => assert_eq!(ignored(other), Ignored::TooMany),
        }
    }
    assert_eq!(answers, 10_000);
    assert!(endpoint.is_empty());
}

#[test]
fn a_flood_under_one_name_is_not_passed_on_to_it_and_leaves_others_their_answers() {
    let mut endpoint = endpoint();
    let flood = |endpoint: &mut Endpoint, now| {
        let datagram = packet(0, &[Chunk::Init(init(PEER, vec![]))]);
        let mut try_it = || endpoint.handle_datagram(now, from_away(), datagram.clone());
        (0..1000)
            .filter(|_| matches!(try_it(), Handled::Reply(_)))
            .count()
    };
    assert_eq!(flood(&mut endpoint, later()), 200);
    init_ack(
        &mut endpoint,
        route(HOME, "203.0.113.1"),
        init(PEER, vec![]),
    );
    assert_eq!(flood(&mut endpoint, seconds(2)), 200);
}

#[test]
fn an_answer_is_at_most_three_times_as_large_as_what_it_answers() {
    let here: Vec<String> = (0..14).map(|it| format!("2001:db8::{it}")).collect();
    let mut here: Vec<&str> = here.iter().map(String::as_str).collect();
    here.extend([HOME, "192.0.2.2"]);
    let config = EndpointConfig::new(
        AssociationConfig {
            checksum: crate::Checksum::LowerLayer,
            ..Default::default()
        },
        &locals(&here),
    );
    let unknown = |length: usize| Parameter::Unknown {
        kind: 0xC100,
        action: UnknownAction::SkipAndReport,
        parameter: [&[0xC1, 0, 0, length as u8][..], &vec![1; length - 4]]
            .concat()
            .into(),
    };
    let families = || Parameter::SupportedAddressTypes(vec![5, 6]);
    let listed = |count: usize| {
        let address = |it| Parameter::Address(ip(&format!("203.0.113.{it}")));
        (1..=count).map(address).collect::<Vec<_>>()
    };
    for parameters in [
        vec![families()],
        vec![families(), unknown(4)],
        vec![families(), unknown(4), unknown(4), unknown(4), unknown(4)],
        vec![families(), unknown(200)],
        [vec![families()], listed(3)].concat(),
        [vec![families()], listed(60)].concat(),
    ] {
        let datagram = packet(0, &[Chunk::Init(init(PEER, parameters))]);
        let asked = datagram.len() + 28;
        let handled = endpoint_with(config.clone()).handle_datagram(later(), from_away(), datagram);
        let Handled::Reply(reply) = handled else {
            panic!("no answer: {handled:?}");
        };
        let answered = reply.datagram.len() + 28;
        assert!(answered <= 3 * asked, "{answered} for {asked}");
    }
}

#[test]
fn an_init_must_be_alone_and_have_no_tag() {
    let chunk = Chunk::Init(init(PEER, vec![]));
    let bundled = [
        packet(0, &[chunk.clone(), Chunk::CookieAck]),
        packet(0, &[Chunk::CookieAck, chunk.clone()]),
        packet(0, &[chunk.clone(), chunk.clone()]),
        packet(5, &[chunk]),
    ];
    for datagram in bundled {
        assert_eq!(answer(&mut endpoint(), datagram), None);
    }
}

#[test]
fn an_init_that_names_no_tag_is_dropped() {
    let datagram = packet(0, &[Chunk::Init(init(0, vec![]))]);
    assert_eq!(answer(&mut endpoint(), datagram), None);
}

#[test]
fn an_init_with_numbers_that_are_not_allowed_is_refused_by_the_tag_that_it_names() {
    for broken in [
        Init {
            outbound_streams: 0,
            ..init(PEER, vec![])
        },
        Init {
            inbound_streams: 0,
            ..init(PEER, vec![])
        },
        Init {
            window: 1499,
            ..init(PEER, vec![])
        },
    ] {
        let datagram = packet(0, &[Chunk::Init(broken)]);
        let sent = answer(&mut endpoint(), datagram).unwrap();
        assert_eq!(sent, refusal(Cause::InvalidParameter));
    }
}

#[test]
fn an_init_that_names_itself_by_a_host_name_is_refused() {
    let name = bytes::Bytes::from_static(&[0, 11, 0, 8, b'h', b'o', b's', b't']);
    let named = Parameter::Unknown {
        kind: 11,
        action: UnknownAction::Stop,
        parameter: name.clone(),
    };
    let datagram = packet(0, &[Chunk::Init(init(PEER, vec![named]))]);
    let sent = answer(&mut endpoint(), datagram).unwrap();
    assert_eq!(sent, refusal(Cause::UnresolvableAddress(name)));
}

#[test]
fn an_init_from_no_host_is_dropped() {
    for from in ["255.255.255.255", "224.0.0.1", "0.0.0.0", "ff02::1", "::"] {
        let datagram = packet(0, &[Chunk::Init(init(PEER, vec![]))]);
        let handled = endpoint().handle_datagram(later(), route(HOME, from), datagram);
        assert_eq!(ignored(handled), Ignored::Source, "{from}");
    }
}

#[test]
fn addresses_that_a_peer_must_not_list_are_passed_over() {
    let unusable = [
        "224.0.0.1",
        "255.255.255.255",
        "0.0.0.0",
        "ff02::1",
        "::",
        "::ffff:203.0.113.1",
    ];
    assert!(taken(AWAY, &unusable).is_empty());
    let inside = [
        "127.0.0.1",
        "::1",
        "10.0.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "fd00::1",
    ];
    assert!(
        taken(AWAY, &inside).is_empty(),
        "it would have this host look around its own network"
    );
    assert!(taken(AWAY, &[HOME]).is_empty(), "this host itself");
    let twice = ["203.0.113.1", AWAY, "203.0.113.1", "2001:db8::7"];
    assert_eq!(taken(AWAY, &twice), [ip("203.0.113.1"), ip("2001:db8::7")]);
    assert_eq!(
        taken("10.0.0.7", &["10.1.0.7", "127.0.0.1"]),
        [ip("10.1.0.7")]
    );
}

#[test]
fn a_peer_lists_only_so_many_addresses() {
    let many: Vec<String> = (1..=200).map(|it| format!("203.0.113.{it}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(taken(AWAY, &many).len(), MAX_PEER_ADDRESSES - 1);
}

#[test]
fn unknown_parameters_are_reported_and_end_the_reading_as_they_ask() {
    let address = Parameter::Address(ip("203.0.113.1"));
    for (kind, action, reports, goes_on) in [
        (0x12, UnknownAction::Stop, false, false),
        (0x52, UnknownAction::StopAndReport, true, false),
        (0x92, UnknownAction::Skip, false, true),
        (0xD2, UnknownAction::SkipAndReport, true, true),
    ] {
        let parameter = Bytes::from(vec![kind, 0x34, 0, 5, 1]);
        let kind = u16::from_be_bytes([kind, 0x34]);
        let sent = Parameter::Unknown {
            kind,
            action,
            parameter: parameter.clone(),
        };
        let mut endpoint = endpoint();
        let answer = init_ack(
            &mut endpoint,
            from_away(),
            init(PEER, vec![sent, address.clone()]),
        );
        let expected = Parameter::Unrecognized(parameter);
        assert_eq!(answer.parameters.contains(&expected), reports, "{action:?}");
        let count = negotiated_of(&endpoint, &answer).peer_addresses.len();
        assert_eq!(count, if goes_on { 2 } else { 1 }, "{action:?}");
    }
}

#[test]
fn what_is_reported_is_bounded() {
    let unknown = Parameter::Unknown {
        kind: 0xD234,
        action: UnknownAction::SkipAndReport,
        parameter: [&[0xD2, 0x34, 0, 104][..], &[1; 100]].concat().into(),
    };
    let answer = init_ack(&mut endpoint(), from_away(), init(PEER, vec![unknown; 50]));
    let is_report = |it: &&Parameter| matches!(it, Parameter::Unrecognized(_));
    assert_eq!(answer.parameters.iter().filter(is_report).count(), 2);
}

#[test]
fn where_no_endpoint_listens_an_init_is_refused() {
    let config = EndpointConfig::new(AssociationConfig::default(), &locals(&[HOME]));
    let other_port = AssociationConfig {
        port: 10,
        ..AssociationConfig::default()
    };
    for config in [
        EndpointConfig {
            accepts: false,
            ..config.clone()
        },
        EndpointConfig {
            association: other_port,
            ..config
        },
    ] {
        let datagram = packet(0, &[Chunk::Init(init(PEER, vec![]))]);
        let sent = answer(&mut endpoint_with(config), datagram).unwrap();
        let chunk = Chunk::Abort {
            reflected: false,
            causes: vec![],
        };
        assert_eq!((sent.tag.value(), &sent.chunks[..]), (PEER, &[chunk][..]));
    }
}

#[test]
fn what_is_agreed_on_is_what_both_can() {
    let more = |extensions: &[u8]| {
        let extensions = Parameter::SupportedExtensions(extensions.to_vec());
        init(PEER, vec![extensions, Parameter::ForwardTsnSupported])
    };
    let mut endpoint = endpoint();
    let answer = init_ack(
        &mut endpoint,
        from_away(),
        more(&[0x40, 0xC0, 0xC2, 0xC1, 0x80]),
    );
    let negotiated = negotiated_of(&endpoint, &answer);
    assert!(negotiated.interleaving && negotiated.partial_reliability);
    assert!(
        !negotiated.reconfiguration,
        "nothing below authenticates packets"
    );
    assert_eq!(
        (negotiated.outbound_streams, negotiated.inbound_streams),
        (20, 10)
    );
    assert_eq!(
        (negotiated.peer_tag, negotiated.peer_initial_tsn),
        (VerificationTag::new(PEER), Tsn::new(7))
    );

    let answer = init_ack(&mut endpoint, from_away(), more(&[0x40]));
    let negotiated = negotiated_of(&endpoint, &answer);
    assert!(negotiated.interleaving);
    assert!(
        !negotiated.partial_reliability,
        "I-DATA can't be given up without I-FORWARD-TSN"
    );

    let answer = init_ack(&mut endpoint, from_away(), more(&[]));
    let negotiated = negotiated_of(&endpoint, &answer);
    assert!(!negotiated.interleaving && negotiated.partial_reliability);
}

fn refusal(cause: Cause) -> Sent {
    Sent {
        route: from_away(),
        tag: VerificationTag::new(PEER),
        chunks: vec![Chunk::Abort {
            reflected: false,
            causes: vec![cause],
        }],
    }
}
