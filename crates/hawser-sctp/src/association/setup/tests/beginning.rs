use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Init, Parameter, UnknownAction, VerificationTag};

use super::*;
use crate::error::{Closed, Misbehaviour};
use crate::testing::ip;
use crate::{Checksum, ConnectStrategy};

const BROKEN: SetupOutcome = SetupOutcome::Closed(Closed::Misbehaved(Misbehaviour::InvalidInit));

#[test]
fn init_goes_over_every_route_in_turn_and_waits_longer_each_round() {
    let (here, there) = (
        [HOME, "192.0.2.9", "2001:db8::1"],
        [socket(AWAY), socket(AWAY_TOO)],
    );
    let mut setup = Setup::connect(Instant::ZERO, setup_context(&here), names(OWN), &there);
    let mut tried = Vec::new();
    loop {
        for sent in drain(&mut setup) {
            assert_eq!(sent.tag, VerificationTag::NONE);
            let Route { local, remote } = sent.route;
            tried.push((local.address, remote.ip()));
        }
        let at = setup.poll_timeout().expect("it goes on");
        if at >= seconds(4) {
            break;
        }
        setup.handle_timeout(at);
    }
    let pairs = [
        (HOME, AWAY),
        ("192.0.2.9", AWAY_TOO),
        (HOME, AWAY_TOO),
        ("192.0.2.9", AWAY),
    ]
    .map(|(local, remote)| (ip(local), ip(remote)));
    assert_eq!(
        tried,
        [pairs, pairs].concat(),
        "0 to 750 ms, 1.75 s to 2.5 s"
    );
    assert_eq!(
        setup.poll_timeout(),
        Some(seconds(4) + Duration::from_millis(500))
    );
}

#[test]
fn what_the_peer_expects_goes_over_all_routes_at_once_and_soon_again() {
    let there = [socket(AWAY), socket(AWAY_TOO)];
    let mut context = setup_context(&[HOME, "192.0.2.9"]);
    context.config.connect = ConnectStrategy::AtOnce;
    let mut setup = Setup::connect(Instant::ZERO, context, names(OWN), &there);
    let mut sent = vec![(0, drain(&mut setup).len())];
    while sent.len() < 5 {
        let at = setup.poll_timeout().expect("it goes on");
        setup.handle_timeout(at);
        let millis = at.since(Instant::ZERO).as_millis();
        sent.push((millis, drain(&mut setup).len()));
    }
    assert_eq!(sent, [(0, 4), (10, 4), (50, 4), (210, 4), (850, 4)]);
    // The duration of an answer is known when the cookie goes back, so that it is not repeated
    // before.
    let chunk = Chunk::InitAck(answer(vec![Parameter::Address(ip(AWAY_TOO))]));
    let now = Instant::ZERO + Duration::from_millis(900);
    let (_, cookies) = deliver_by(&mut setup, now, arrival(OWN), chunk);
    assert_eq!((cookies.len(), cookies[0].route), (4, route(HOME, AWAY)));
    assert_eq!(setup.poll_timeout(), Some(now + Duration::from_secs(1)));
}

#[test]
fn an_init_says_where_else_this_end_is_but_nothing_of_its_own_network() {
    let here = [
        HOME,
        "192.0.2.9",
        "192.0.2.9",
        "10.0.0.1",
        "127.0.0.1",
        "2001:db8::1",
    ];
    let mut setup = Setup::connect(
        Instant::ZERO,
        setup_context(&here),
        names(OWN),
        &[socket(AWAY)],
    );
    let sent = drain(&mut setup);
    let [Chunk::Init(init)] = &sent[0].chunks[..] else {
        panic!("not alone: {sent:?}");
    };
    let listed: Vec<_> = init.parameters.iter().filter_map(address).collect();
    assert_eq!(listed, [ip("192.0.2.9"), ip("2001:db8::1")]);
}

#[test]
fn who_gets_no_answer_gives_up_after_so_many_rounds() {
    let mut setup = waiting();
    let mut count = 1;
    let why = loop {
        let at = setup.poll_timeout().expect("it goes on until it gives up");
        match setup.handle_timeout(at) {
            SetupOutcome::Closed(why) => break why,
            outcome => assert_eq!(outcome, SetupOutcome::Nothing),
        }
        count += drain(&mut setup).len();
    };
    assert_eq!((why, count), (Closed::NoAnswer, 9));
    assert_eq!(setup.poll_timeout(), None);
}

#[test]
fn a_cookie_goes_back_by_the_way_that_it_came_and_no_data_with_it() {
    let there = [socket(AWAY), socket(AWAY_TOO)];
    let mut setup = Setup::connect(Instant::ZERO, setup_context(&[HOME]), names(OWN), &there);
    drain(&mut setup);
    let from = Arrival {
        route: route(HOME, AWAY_TOO),
        ..arrival(OWN)
    };
    let chunk = Chunk::InitAck(answer(vec![]));
    let (outcome, sent) = deliver_by(&mut setup, seconds(1), from, chunk);
    let cookie = Chunk::CookieEcho(Bytes::from(vec![5; 40]));
    assert_eq!(outcome, SetupOutcome::Nothing);
    assert_eq!((sent[0].route, sent[0].tag.value()), (from.route, PEER));
    assert_eq!(sent[0].chunks, [cookie]);
}

#[test]
fn an_init_ack_from_an_address_that_was_not_asked_is_dropped() {
    let from = Arrival {
        route: route(HOME, AWAY_TOO),
        ..arrival(OWN)
    };
    let chunk = Chunk::InitAck(answer(vec![]));
    let (outcome, sent) = deliver_by(&mut waiting(), seconds(1), from, chunk);
    assert_eq!((outcome, sent), (SetupOutcome::Discard, Vec::new()));
}

#[test]
fn a_cookie_is_sent_again_until_it_is_acknowledged() {
    let mut setup = echoed();
    let at = setup.poll_timeout().unwrap();
    assert_eq!(setup.handle_timeout(at), SetupOutcome::Nothing);
    assert!(matches!(
        drain(&mut setup)[0].chunks[..],
        [Chunk::CookieEcho(_)]
    ));
    let (outcome, sent) = deliver(&mut setup, OWN, Chunk::CookieAck);
    assert_eq!(
        outcome,
        SetupOutcome::Established(negotiated(OWN, PEER, &[AWAY]))
    );
    assert!(sent.is_empty());
    assert_eq!(setup.poll_timeout(), None);
    assert_eq!(
        deliver(&mut setup, OWN, Chunk::CookieAck).0,
        SetupOutcome::Nothing,
        "only once"
    );
}

#[test]
fn a_peer_that_stands_already_gets_the_cookie_again_but_not_at_every_packet() {
    let mut setup = echoed();
    let mut early = |millis| {
        setup.on_early_chunk(
            seconds(1) + Duration::from_millis(millis),
            route(HOME, AWAY),
            Chunk::ShutdownAck,
        );
        drain(&mut setup).len()
    };
    assert_eq!(
        [1, 249, 250, 251, 499, 500].map(&mut early),
        [0, 0, 1, 0, 0, 1]
    );
    for mut setup in [waiting(), established(), closed()] {
        setup.on_early_chunk(seconds(9), route(HOME, AWAY), Chunk::ShutdownAck);
        assert!(drain(&mut setup).is_empty());
    }
}

/// The peer's first heartbeat on another path may overtake its COOKIE ACK.
#[test]
fn a_peer_that_stands_already_is_answered_whether_a_path_is_there() {
    let info = Bytes::from_static(b"which");
    let asked = route(HOME, AWAY_TOO);
    let mut setup = echoed();
    setup.on_early_chunk(seconds(1), asked, Chunk::Heartbeat(info.clone()));
    let sent = drain(&mut setup);
    assert_eq!((sent[0].route, sent[0].tag.value()), (asked, PEER));
    assert_eq!(sent[0].chunks, [Chunk::HeartbeatAck(info.clone())]);
    for mut setup in [waiting(), closed()] {
        setup.on_early_chunk(seconds(9), asked, Chunk::Heartbeat(info.clone()));
        assert!(drain(&mut setup).is_empty());
    }
}

#[test]
fn a_cookie_that_is_never_acknowledged_ends_it() {
    let mut setup = echoed();
    let mut outcome = SetupOutcome::Nothing;
    while let Some(at) = setup.poll_timeout() {
        outcome = setup.handle_timeout(at);
    }
    assert_eq!(outcome, SetupOutcome::Closed(Closed::NoAnswer));
}

#[test]
fn what_the_owner_said_of_addresses_holds_beside_what_the_peer_says() {
    let (near, far) = ("203.0.113.5", "203.0.113.6");
    let given = [
        socket(AWAY),
        SocketAddr::new(ip(near), 7),
        SocketAddr::new(ip(far), 8),
    ];
    for (checksum, unlisted) in [
        (Checksum::Crc32c, None),
        (Checksum::LowerLayer, Some(given[2])),
    ] {
        let mut context = setup_context(&[HOME]);
        context.config.checksum = checksum;
        let mut setup = Setup::connect(Instant::ZERO, context, names(OWN), &given);
        drain(&mut setup);
        let listed = Parameter::Address(ip(near));
        deliver(&mut setup, OWN, Chunk::InitAck(answer(vec![listed])));
        let (outcome, _) = deliver(&mut setup, OWN, Chunk::CookieAck);
        let SetupOutcome::Established(negotiated) = outcome else {
            panic!("not established: {outcome:?}");
        };
        let expected: Vec<_> = given[..2].iter().copied().chain(unlisted).collect();
        assert_eq!(negotiated.peer_addresses, expected);
    }
}

#[test]
fn an_init_ack_counts_only_while_one_is_waited_for() {
    for mut setup in [echoed(), established(), closed()] {
        let before = setup.stage.name();
        let (outcome, sent) = deliver(&mut setup, OWN, Chunk::InitAck(answer(vec![])));
        assert_eq!(
            (outcome, sent.len(), setup.stage.name()),
            (SetupOutcome::Nothing, 0, before)
        );
    }
}

#[test]
fn an_init_ack_without_tag_ends_it_without_a_word() {
    let mut setup = waiting();
    let broken = Init {
        tag: VerificationTag::NONE,
        ..answer(vec![])
    };
    assert_eq!(
        deliver(&mut setup, OWN, Chunk::InitAck(broken)),
        (BROKEN, Vec::new())
    );
}

#[test]
fn an_init_ack_with_numbers_that_are_not_allowed_ends_it() {
    for broken in [
        Init {
            outbound_streams: 0,
            ..answer(vec![])
        },
        Init {
            inbound_streams: 0,
            ..answer(vec![])
        },
        Init {
            window: 1499,
            ..answer(vec![])
        },
    ] {
        let (outcome, sent) = deliver(&mut waiting(), OWN, Chunk::InitAck(broken));
        assert_eq!(outcome, BROKEN);
        assert_eq!(sent[0].chunks, [abort(Cause::InvalidParameter)]);
        assert_eq!(sent[0].tag.value(), PEER);
    }
}

#[test]
fn an_init_ack_without_cookie_or_with_a_huge_one_ends_it() {
    let (outcome, sent) = deliver(&mut waiting(), OWN, Chunk::InitAck(init(PEER, vec![])));
    assert_eq!(outcome, BROKEN);
    assert_eq!(sent[0].chunks, [abort(Cause::MissingParameters(vec![7]))]);

    let huge = Parameter::Cookie(vec![0; 5000].into());
    let (outcome, sent) = deliver(&mut waiting(), OWN, Chunk::InitAck(init(PEER, vec![huge])));
    assert_eq!(outcome, BROKEN);
    assert_eq!(sent[0].chunks, [abort(Cause::InvalidParameter)]);
}

#[test]
fn unknown_parameters_of_an_init_ack_are_reported_with_the_cookie() {
    let unknown = |action, byte| Parameter::Unknown {
        kind: 0xC123,
        action,
        parameter: Bytes::from(vec![0xC1, 0x23, 0, 5, byte]),
    };
    let more = vec![
        unknown(UnknownAction::SkipAndReport, 1),
        unknown(UnknownAction::Skip, 2),
        unknown(UnknownAction::SkipAndReport, 3),
    ];
    let mut setup = waiting();
    setup.on_chunk(seconds(1), arrival(OWN), &Chunk::InitAck(answer(more)));
    let sent = drain(&mut setup);
    let reported = vec![0xC1, 0x23, 0, 5, 1, 0, 0, 0, 0xC1, 0x23, 0, 5, 3, 0, 0, 0];
    let report = Chunk::Error(vec![Cause::UnrecognizedParameters(reported.into())]);
    assert_eq!(sent[0].chunks[1..], [report]);
}

/// A late report about the first cookie, or its COOKIE ACK, must not count for a second one.
#[test]
fn a_stale_cookie_ends_the_association_instead_of_asking_for_another_with_the_same_tag() {
    let mut setup = echoed();
    let stale = Chunk::Error(vec![Cause::StaleCookie(500_000)]);
    let refused = SetupOutcome::Closed(Closed::Refused);
    assert_eq!(deliver(&mut setup, OWN, stale), (refused, Vec::new()));
    for late in [Chunk::InitAck(answer(vec![])), Chunk::CookieAck] {
        let nothing = (SetupOutcome::Nothing, Vec::new());
        assert_eq!(deliver(&mut setup, OWN, late), nothing);
    }
}

#[test]
fn a_report_of_a_stale_cookie_means_nothing_later() {
    let stale = Chunk::Error(vec![Cause::StaleCookie(1)]);
    for mut setup in [waiting(), established(), closed()] {
        assert_eq!(
            deliver(&mut setup, OWN, stale.clone()),
            (SetupOutcome::Nothing, Vec::new())
        );
    }
}

#[test]
fn an_abort_counts_with_the_right_tag_only() {
    let plain = Chunk::Abort {
        reflected: false,
        causes: Vec::new(),
    };
    let reflected = Chunk::Abort {
        reflected: true,
        causes: Vec::new(),
    };
    for (tag, chunk, counts) in [
        (OWN, &plain, true),
        (PEER, &reflected, true),
        (PEER, &plain, false),
        (OWN, &reflected, false),
        (77, &plain, false),
        (77, &reflected, false),
        (0, &plain, false),
        (0, &reflected, false),
    ] {
        let mut setup = established();
        assert_eq!(
            setup.admits(VerificationTag::new(tag), chunk),
            counts,
            "{tag} {chunk:?}"
        );
        let (outcome, _) = deliver(&mut setup, tag, chunk.clone());
        let expected = if counts {
            SetupOutcome::Closed(Closed::AbortedByPeer(Bytes::new()))
        } else {
            SetupOutcome::Discard
        };
        assert_eq!(outcome, expected, "{tag} {chunk:?}");
    }
}

#[test]
fn an_abort_tells_what_the_application_said() {
    let causes = vec![
        Cause::OutOfResource,
        Cause::UserAbort(Bytes::from_static(b"bye")),
    ];
    let chunk = Chunk::Abort {
        reflected: false,
        causes,
    };
    let (outcome, _) = deliver(&mut established(), OWN, chunk);
    let said = Bytes::from_static(b"bye");
    assert_eq!(outcome, SetupOutcome::Closed(Closed::AbortedByPeer(said)));
}

#[test]
fn an_abort_after_everything_has_arrived_is_no_loss() {
    let mut setup = established();
    let arrival = Arrival {
        acknowledging: true,
        ..arrival(OWN)
    };
    let chunk = Chunk::Abort {
        reflected: false,
        causes: Vec::new(),
    };
    let (outcome, _) = deliver_by(&mut setup, seconds(1), arrival, chunk);
    assert_eq!(outcome, SetupOutcome::Closed(Closed::Shutdown));
}

#[test]
fn an_abort_of_a_beginning_is_a_refusal_and_none_is_believed_that_reflects_nothing() {
    let chunk = |reflected| Chunk::Abort {
        reflected,
        causes: Vec::new(),
    };
    for mut setup in [waiting(), echoed()] {
        assert_eq!(
            deliver(&mut setup, OWN, chunk(false)).0,
            SetupOutcome::Closed(Closed::Refused)
        );
    }
    // INIT has the tag 0; a packet that reflects it could come from any host.
    assert!(!waiting().admits(VerificationTag::NONE, &chunk(true)));
}

#[test]
fn packets_with_a_forged_tag_are_not_read() {
    let setup = established();
    for chunk in [Chunk::CookieAck, Chunk::ShutdownAck, Chunk::Error(vec![])] {
        assert!(setup.admits(VerificationTag::new(OWN), &chunk));
        for tag in [0, PEER, 3] {
            assert!(
                !setup.admits(VerificationTag::new(tag), &chunk),
                "{tag} {chunk:?}"
            );
        }
    }
    let complete = |reflected| Chunk::ShutdownComplete { reflected };
    assert!(setup.admits(VerificationTag::new(PEER), &complete(true)));
    assert!(!setup.admits(VerificationTag::new(OWN), &complete(true)));
    assert!(!setup.admits(VerificationTag::new(PEER), &complete(false)));
}

#[test]
fn ending_it_tells_a_peer_that_is_known() {
    let mut setup = established();
    setup.abort(Some(route(HOME, AWAY)), vec![Cause::OutOfResource]);
    let sent = drain(&mut setup);
    assert_eq!(
        (sent[0].tag.value(), &sent[0].chunks[..]),
        (PEER, &[abort(Cause::OutOfResource)][..])
    );
    let mut setup = waiting();
    setup.abort(Some(route(HOME, AWAY)), Vec::new());
    assert!(drain(&mut setup).is_empty());
    assert_eq!(setup.poll_timeout(), None);
}

fn abort(cause: Cause) -> Chunk {
    Chunk::Abort {
        reflected: false,
        causes: vec![cause],
    }
}

fn address(parameter: &Parameter) -> Option<std::net::IpAddr> {
    match parameter {
        Parameter::Address(address) => Some(*address),
        _ => None,
    }
}
