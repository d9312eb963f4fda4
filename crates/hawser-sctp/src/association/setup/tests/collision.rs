use bytes::Bytes;
use hawser_wire::sctp::{Cause, Chunk, Init, Parameter, VerificationTag};

use super::*;
use crate::handshake::CookieKey;
use crate::testing::{cookie_of, ip};

/// Tag of the peer after its restart.
const ANEW: u32 = 22;

fn acknowledging(tag: u32) -> Arrival {
    Arrival {
        acknowledging: true,
        ..arrival(tag)
    }
}

/// Returns the answer to an INIT.
fn answered(setup: &mut Setup, tag: u32) -> Init {
    let (outcome, sent) = deliver(setup, 0, Chunk::Init(init(tag, vec![])));
    assert_eq!(outcome, SetupOutcome::Discard);
    assert_eq!(sent[0].tag.value(), tag);
    sent[0].init_ack().clone()
}

/// Returns a cookie, with the tag that came with it.
fn echo(setup: &mut Setup, answer: &Init) -> (SetupOutcome, Vec<Sent>) {
    deliver(
        setup,
        answer.tag.value(),
        Chunk::CookieEcho(cookie_of(answer)),
    )
}

#[test]
fn an_init_never_changes_an_association() {
    for mut setup in [waiting(), echoed(), established(), closed()] {
        let (stage, identifiers) = (setup.stage.name(), setup.identifiers);
        let wake_up = setup.poll_timeout();
        let (outcome, _) = deliver(&mut setup, 0, Chunk::Init(init(ANEW, vec![])));
        assert_eq!(outcome, SetupOutcome::Discard);
        assert_eq!(
            (setup.stage.name(), setup.identifiers, setup.poll_timeout()),
            (stage, identifiers, wake_up)
        );
    }
}

#[test]
fn an_init_that_crosses_ours_is_answered_by_the_same_name() {
    for mut setup in [waiting(), echoed()] {
        let answer = answered(&mut setup, ANEW);
        assert_eq!(
            (answer.tag, answer.initial_tsn),
            (names(OWN).tag, names(OWN).initial_tsn)
        );
    }
}

#[test]
fn an_init_to_what_is_established_learns_nothing_of_its_tags() {
    let mut setup = established();
    let (first, second) = (answered(&mut setup, ANEW), answered(&mut setup, ANEW));
    assert_ne!(first.tag, names(OWN).tag);
    assert_ne!(first.tag, second.tag);
    let cookie = cookie_of(&first);
    for tag in [OWN, PEER] {
        let bytes = tag.to_be_bytes();
        assert!(
            !cookie.chunks_exact(4).any(|it| it == bytes),
            "the cookie tells a tag"
        );
    }
}

#[test]
fn an_init_with_numbers_that_are_not_allowed_is_refused_and_nothing_changes() {
    let no_streams = Init {
        outbound_streams: 0,
        ..init(ANEW, vec![])
    };
    let no_window = Init {
        window: 100,
        ..init(ANEW, vec![])
    };
    for broken in [no_streams, no_window] {
        let mut setup = established();
        let (outcome, sent) = deliver(&mut setup, 0, Chunk::Init(broken));
        assert_eq!(outcome, SetupOutcome::Discard);
        let causes = vec![Cause::InvalidParameter];
        assert_eq!(
            sent[0].chunks,
            [Chunk::Abort {
                reflected: false,
                causes
            }]
        );
        assert_eq!(sent[0].tag.value(), ANEW);
        assert!(setup.negotiated().is_some());
    }
}

#[test]
fn an_init_with_new_addresses_is_refused_and_nothing_changes() {
    let added = Parameter::Address(ip("203.0.113.66"));
    let known = Parameter::Address(ip(AWAY_TOO));
    for mut setup in [echoed(), established()] {
        let chunk = Chunk::Init(init(ANEW, vec![added.clone()]));
        let (outcome, sent) = deliver(&mut setup, 0, chunk);
        assert_eq!(outcome, SetupOutcome::Discard);
        let added = Bytes::from_static(&[0, 5, 0, 8, 203, 0, 113, 66]);
        let causes = vec![Cause::RestartWithNewAddresses(added)];
        assert_eq!(
            sent[0].chunks,
            [Chunk::Abort {
                reflected: false,
                causes
            }]
        );
        assert_eq!(sent[0].tag.value(), ANEW);
    }
    let mut setup = established();
    let (_, sent) = deliver(&mut setup, 0, Chunk::Init(init(ANEW, vec![known])));
    sent[0].init_ack();
}

/// The INIT went over all links; this link is slow, or its address now belongs to another host.
#[test]
fn an_init_of_the_association_itself_that_comes_late_is_dropped() {
    for address in [AWAY, "203.0.113.77"] {
        let mut setup = established();
        let from = Arrival {
            route: route(HOME, address),
            ..arrival(0)
        };
        let own = Chunk::Init(init(PEER, vec![]));
        let (outcome, sent) = deliver_by(&mut setup, seconds(1), from, own);
        assert_eq!((outcome, sent), (SetupOutcome::Discard, Vec::new()));
    }
}

#[test]
fn who_begins_while_its_shutdown_is_acknowledged_hears_so_again() {
    let mut setup = established();
    let chunk = Chunk::Init(init(ANEW, vec![]));
    let (outcome, sent) = deliver_by(&mut setup, seconds(1), acknowledging(0), chunk);
    assert_eq!((outcome, sent), (SetupOutcome::Late, Vec::new()));
}

/// §5.2.4, case A.
#[test]
fn a_peer_that_lost_the_association_begins_anew() {
    let mut setup = established();
    let answer = answered(&mut setup, ANEW);
    let (outcome, sent) = echo(&mut setup, &answer);
    let SetupOutcome::Restarted(negotiated) = outcome else {
        panic!("not restarted: {outcome:?}");
    };
    assert_eq!(
        (negotiated.local_tag, negotiated.peer_tag.value()),
        (answer.tag, ANEW)
    );
    assert_eq!(setup.identifiers.tag, answer.tag);
    assert_eq!(setup.identifiers.initial_tsn, answer.initial_tsn);
    assert_eq!(
        (sent[0].tag.value(), &sent[0].chunks[..]),
        (ANEW, &[Chunk::CookieAck][..])
    );
    // The same cookie is now case D, and the old tags are invalid.
    assert_eq!(echo(&mut setup, &answer).0, SetupOutcome::Nothing);
    assert!(!setup.admits(VerificationTag::new(OWN), &Chunk::CookieAck));
}

#[test]
fn a_second_cookie_of_a_new_beginning_does_not_begin_it_again() {
    let mut setup = established();
    let answers = [answered(&mut setup, ANEW), answered(&mut setup, ANEW)];
    assert!(matches!(
        echo(&mut setup, &answers[0]).0,
        SetupOutcome::Restarted(_)
    ));
    assert_eq!(
        echo(&mut setup, &answers[1]),
        (SetupOutcome::Discard, Vec::new())
    );
}

#[test]
fn a_new_beginning_during_shutdown_is_refused() {
    let mut setup = established();
    let answer = answered(&mut setup, ANEW);
    let arrival = acknowledging(answer.tag.value());
    let chunk = Chunk::CookieEcho(cookie_of(&answer));
    let (outcome, sent) = deliver_by(&mut setup, seconds(1), arrival, chunk);
    assert_eq!(outcome, SetupOutcome::Late);
    assert_eq!(
        sent[0].chunks,
        [Chunk::Error(vec![Cause::CookieWhileShuttingDown])]
    );
    assert_eq!(sent[0].tag.value(), ANEW);
}

#[test]
fn a_new_beginning_that_comes_too_late_is_told_so() {
    let mut setup = established();
    let answer = answered(&mut setup, ANEW);
    let chunk = Chunk::CookieEcho(cookie_of(&answer));
    let arrival = arrival(answer.tag.value());
    let (outcome, sent) = deliver_by(&mut setup, seconds(62), arrival, chunk);
    assert_eq!(outcome, SetupOutcome::Discard);
    assert_eq!(
        sent[0].chunks,
        [Chunk::Error(vec![Cause::StaleCookie(1_000_000)])]
    );
    assert_eq!(setup.identifiers.tag.value(), OWN);
}

#[test]
fn a_new_beginning_must_not_use_addresses_removed_meanwhile() {
    let mut setup = established();
    let answer = answered(&mut setup, ANEW);
    setup.addresses_changed(&[socket(AWAY_TOO)]);
    assert_eq!(
        echo(&mut setup, &answer),
        (SetupOutcome::Discard, Vec::new())
    );
}

/// §5.2.4, case B.
#[test]
fn beginnings_that_cross_become_one_association() {
    for mut setup in [waiting(), echoed()] {
        let answer = answered(&mut setup, ANEW);
        let (outcome, sent) = echo(&mut setup, &answer);
        assert_eq!(
            outcome,
            SetupOutcome::Established(negotiated(OWN, ANEW, &[AWAY]))
        );
        assert_eq!(
            (sent[0].tag.value(), &sent[0].chunks[..]),
            (ANEW, &[Chunk::CookieAck][..])
        );
        assert_eq!(setup.poll_timeout(), None);
        assert_eq!(
            deliver(&mut setup, OWN, Chunk::CookieAck).0,
            SetupOutcome::Nothing
        );
    }
}

/// §5.2.4, case C.
#[test]
fn a_cookie_that_was_overtaken_is_dropped() {
    let mut other = Setup::connect(
        seconds(1),
        setup_context(&[HOME]),
        names(5),
        &[socket(AWAY)],
    );
    drain(&mut other);
    let answer = answered(&mut other, PEER);
    for mut setup in [echoed(), established()] {
        assert_eq!(
            echo(&mut setup, &answer),
            (SetupOutcome::Discard, Vec::new())
        );
    }
}

/// §5.2.4, case D.
#[test]
fn a_known_cookie_is_acknowledged_again_whatever_its_age() {
    let mut setup = echoed();
    let answer = answered(&mut setup, PEER);
    let (outcome, sent) = echo(&mut setup, &answer);
    assert_eq!(
        outcome,
        SetupOutcome::Established(negotiated(OWN, PEER, &[AWAY]))
    );
    assert_eq!(sent[0].chunks, [Chunk::CookieAck]);

    let chunk = Chunk::CookieEcho(cookie_of(&answer));
    let (outcome, sent) = deliver_by(&mut setup, seconds(10_000), arrival(OWN), chunk);
    assert_eq!(outcome, SetupOutcome::Nothing);
    assert_eq!(
        (sent[0].tag.value(), &sent[0].chunks[..]),
        (PEER, &[Chunk::CookieAck][..])
    );
}

#[test]
fn a_cookie_of_another_association_with_the_same_peer_is_dropped() {
    // Neither tag is known, and the cookie names another predecessor or none.
    let mut other = established();
    other.identifiers.tag = VerificationTag::new(55);
    let answer = answered(&mut other, ANEW);
    assert_eq!(
        echo(&mut established(), &answer),
        (SetupOutcome::Discard, Vec::new())
    );
}

#[test]
fn altered_and_forged_cookies_are_dropped() {
    let mut setup = waiting();
    let answer = answered(&mut setup, ANEW);
    let cookie = cookie_of(&answer);
    for at in 0..cookie.len() {
        let mut altered = cookie.to_vec();
        altered[at] ^= 1;
        let chunk = Chunk::CookieEcho(altered.into());
        assert_eq!(
            deliver(&mut setup, OWN, chunk),
            (SetupOutcome::Discard, Vec::new()),
            "{at}"
        );
    }
    for end in 0..cookie.len() {
        let chunk = Chunk::CookieEcho(cookie.slice(..end));
        assert_eq!(
            deliver(&mut setup, OWN, chunk),
            (SetupOutcome::Discard, Vec::new()),
            "{end}"
        );
    }
    let key = CookieKey::new([8; 32]);
    let forged = key.seal(&setup.context.key.open(&cookie).unwrap());
    let (outcome, _) = deliver(&mut setup, OWN, Chunk::CookieEcho(forged));
    assert_eq!(outcome, SetupOutcome::Discard);
    assert!(
        matches!(echo(&mut setup, &answer).0, SetupOutcome::Established(_)),
        "the true one does"
    );
}

#[test]
fn a_cookie_counts_only_with_its_tag_its_ports_and_from_its_addresses() {
    let mut setup = waiting();
    let answer = answered(&mut setup, ANEW);
    let chunk = Chunk::CookieEcho(cookie_of(&answer));
    let elsewhere = Arrival {
        route: route(HOME, "203.0.113.99"),
        ..arrival(OWN)
    };
    for from in [elsewhere, arrival(ANEW), arrival(0)] {
        let (outcome, sent) = deliver_by(&mut setup, seconds(1), from, chunk.clone());
        assert_eq!((outcome, sent), (SetupOutcome::Discard, Vec::new()));
    }
    setup.identifiers.peer_port = 10;
    assert_eq!(deliver(&mut setup, OWN, chunk).0, SetupOutcome::Discard);
}
