use hawser_wire::sctp::Cause;

use super::*;
use crate::testing::{cookie_of, locals, seconds};

#[test]
fn a_cookie_makes_one_association_however_often_it_comes() {
    let mut endpoint = endpoint();
    let datagram = echo(&good(&mut endpoint));
    let handled = endpoint.handle_datagram(later(), from_away(), datagram.clone());
    let Handled::Accepted(id, _) = handled else {
        panic!("not accepted: {handled:?}");
    };
    for now in [1, 100] {
        match endpoint.handle_datagram(seconds(now), from_away(), datagram.clone()) {
            Handled::For(whose, _) => assert_eq!(whose, id),
            other => panic!("not for the association: {other:?}"),
        }
    }
    assert_eq!(endpoint.len(), 1);
}

#[test]
fn a_cookie_of_an_association_that_is_over_makes_no_other() {
    let mut endpoint = endpoint();
    let datagram = echo(&good(&mut endpoint));
    let handled = endpoint.handle_datagram(later(), from_away(), datagram.clone());
    let Handled::Accepted(id, _) = handled else {
        panic!("not accepted: {handled:?}");
    };
    endpoint.forget(id);
    let handled = endpoint.handle_datagram(later(), from_away(), datagram);
    assert_eq!(ignored(handled), Ignored::UsedCookie);
    assert!(endpoint.is_empty());
    // The peer itself may begin another association.
    let datagram = echo(&good(&mut endpoint));
    let handled = endpoint.handle_datagram(later(), from_away(), datagram);
    assert!(matches!(handled, Handled::Accepted(..)));
}

#[test]
fn what_is_remembered_of_the_past_ends_with_it() {
    let mut endpoint = endpoint();
    let datagram = echo(&good(&mut endpoint));
    let handled = endpoint.handle_datagram(later(), from_away(), datagram.clone());
    let Handled::Accepted(id, _) = handled else {
        panic!("not accepted: {handled:?}");
    };
    endpoint.forget(id);
    let handled = endpoint.handle_datagram(seconds(200), from_away(), datagram);
    let Handled::Reply(transmit) = handled else {
        panic!("not answered: {handled:?}");
    };
    assert!(
        matches!(&Sent::of(&transmit).chunks[..], [Chunk::Error(_)]),
        "it is too old itself"
    );
}

#[test]
fn a_stale_cookie_makes_nothing_and_its_bearer_is_told_by_how_much() {
    let mut endpoint = endpoint();
    let datagram = echo(&good(&mut endpoint));
    let handled = endpoint.handle_datagram(seconds(61), from_away(), datagram);
    let Handled::Reply(transmit) = handled else {
        panic!("not answered: {handled:?}");
    };
    let sent = Sent::of(&transmit);
    assert_eq!(sent.tag.value(), PEER);
    assert_eq!(sent.chunks, [Chunk::Error(vec![Cause::StaleCookie(0)])]);
    assert!(endpoint.is_empty());
}

#[test]
fn a_cookie_lives_longer_where_that_was_asked_for_but_not_much() {
    use hawser_wire::sctp::Parameter::CookiePreservative;
    for (millis, life) in [(30_000, 90), (u32::MAX, 120)] {
        let mut endpoint = endpoint();
        let said = init(PEER, vec![CookiePreservative(millis)]);
        let answer = init_ack(&mut endpoint, from_away(), said);
        let cookie = endpoint.key.open(&cookie_of(&answer)).unwrap();
        assert_eq!(cookie.expires, seconds(1 + life));
    }
}

#[test]
fn altered_cookies_are_dropped_without_answer() {
    let mut endpoint = endpoint();
    let answer = good(&mut endpoint);
    let cookie = cookie_of(&answer);
    let mut bring = |cookie: Vec<u8>| {
        let datagram = packet(answer.tag.value(), &[Chunk::CookieEcho(cookie.into())]);
        ignored(endpoint.handle_datagram(later(), from_away(), datagram))
    };
    for at in 0..cookie.len() {
        for bit in 0..8 {
            let mut altered = cookie.to_vec();
            altered[at] ^= 1 << bit;
            assert_eq!(
                bring(altered),
                Ignored::ForgedCookie,
                "bit {bit} of byte {at}"
            );
        }
        assert_eq!(
            bring(cookie[..at].to_vec()),
            Ignored::ForgedCookie,
            "{at} bytes"
        );
    }
    assert_eq!(bring([&cookie[..], &[0]].concat()), Ignored::ForgedCookie);
}

#[test]
fn a_cookie_of_another_host_is_forged() {
    let config = EndpointConfig::new(AssociationConfig::default(), &locals(&[HOME]));
    let datagram = echo(&good(&mut Endpoint::new(config, [4; 32], 0)));
    let handled = endpoint().handle_datagram(later(), from_away(), datagram);
    assert_eq!(ignored(handled), Ignored::ForgedCookie);
}

#[test]
fn a_cookie_counts_only_with_its_tag_its_ports_and_from_its_addresses() {
    let mut endpoint = endpoint();
    let listed = hawser_wire::sctp::Parameter::Address(crate::testing::ip("203.0.113.5"));
    let answer = init_ack(&mut endpoint, from_away(), init(PEER, vec![listed]));
    let chunk = Chunk::CookieEcho(cookie_of(&answer));
    let wrong_tag = packet(answer.tag.value() ^ 1, std::slice::from_ref(&chunk));
    let handled = endpoint.handle_datagram(later(), from_away(), wrong_tag);
    assert_eq!(ignored(handled), Ignored::ForgedCookie);

    let elsewhere = route(HOME, "203.0.113.66");
    let handled = endpoint.handle_datagram(later(), elsewhere, echo(&answer));
    assert_eq!(ignored(handled), Ignored::ForgedCookie);

    let mut writer = hawser_wire::sctp::PacketWriter::new(10, 9, answer.tag, 1000);
    writer.put(&chunk);
    let wrong_port = writer.finish(hawser_wire::sctp::ChecksumRule::Crc32c);
    let handled = endpoint.handle_datagram(later(), from_away(), wrong_port);
    assert_eq!(ignored(handled), Ignored::ForgedCookie);

    let listed = route(HOME, "203.0.113.5");
    let handled = endpoint.handle_datagram(later(), listed, echo(&answer));
    assert!(
        matches!(handled, Handled::Accepted(..)),
        "it is one of those in the cookie"
    );
}

#[test]
fn there_are_only_so_many_associations_and_of_one_host_fewer() {
    let mut config = EndpointConfig::new(AssociationConfig::default(), &locals(&[HOME]));
    config.max_associations = 3;
    config.max_associations_per_host = 2;
    let mut endpoint = endpoint_with(config);
    let mut begin = |from: &str, port: u16| {
        let mut from = route(HOME, from);
        from.remote.set_port(port);
        let datagram = packet(0, &[Chunk::Init(init(PEER, vec![]))]);
        let Handled::Reply(transmit) = endpoint.handle_datagram(later(), from, datagram) else {
            panic!("not answered");
        };
        match &Sent::of(&transmit).chunks[..] {
            [Chunk::InitAck(answer)] => {
                let handled = endpoint.handle_datagram(later(), from, echo(answer));
                assert!(matches!(handled, Handled::Accepted(..)));
                true
            }
            [Chunk::Abort { causes, .. }] => {
                assert_eq!(causes[..], [Cause::OutOfResource]);
                false
            }
            other => panic!("neither: {other:?}"),
        }
    };
    let first = "198.51.100.1";
    let begun = [begin(first, 1), begin(first, 2), begin(first, 3)];
    assert_eq!(begun, [true, true, false]);
    assert_eq!(
        [begin("203.0.113.1", 1), begin("203.0.113.2", 1)],
        [true, false]
    );
}

#[test]
fn cookies_taken_before_it_was_full_do_not_overfill_it() {
    let mut config = EndpointConfig::new(AssociationConfig::default(), &locals(&[HOME]));
    config.max_associations = 1;
    let mut endpoint = endpoint_with(config);
    let other = route(HOME, "203.0.113.1");
    let answers = [
        good(&mut endpoint),
        init_ack(&mut endpoint, other, init(PEER, vec![])),
    ];
    let handled = endpoint.handle_datagram(later(), from_away(), echo(&answers[0]));
    assert!(matches!(handled, Handled::Accepted(..)));
    let handled = endpoint.handle_datagram(later(), other, echo(&answers[1]));
    let Handled::Reply(transmit) = handled else {
        panic!("not answered: {handled:?}");
    };
    let causes = vec![Cause::OutOfResource];
    assert_eq!(
        Sent::of(&transmit).chunks,
        [Chunk::Abort {
            reflected: false,
            causes
        }]
    );
    assert_eq!(endpoint.len(), 1);
}

/// Other stacks may do so, though this end does not.
#[test]
fn data_that_comes_with_a_cookie_is_taken() {
    let mut endpoint = endpoint();
    let answer = good(&mut endpoint);
    let chunks = [
        Chunk::CookieEcho(cookie_of(&answer)),
        super::unexpected::data(),
    ];
    let datagram = packet(answer.tag.value(), &chunks);
    let handled = endpoint.handle_datagram(later(), from_away(), datagram);
    let Handled::Accepted(_, mut association) = handled else {
        panic!("not accepted: {handled:?}");
    };
    let received = association.receive().expect("it was in the packet");
    assert_eq!(received.payload()[..], [1]);
}

/// Source: SCTP aggregation §3.2.
#[test]
fn no_data_goes_with_an_acknowledgement_of_a_cookie() {
    let mut endpoint = endpoint();
    let answer = good(&mut endpoint);
    let handled = endpoint.handle_datagram(later(), from_away(), echo(&answer));
    let Handled::Accepted(_, mut association) = handled else {
        panic!("not accepted: {handled:?}");
    };
    say(&mut association);
    let sent: Vec<Sent> = std::iter::from_fn(|| association.poll_transmit(later()))
        .map(|it| Sent::of(&it))
        .collect();
    assert_eq!(sent[0].chunks, [Chunk::CookieAck]);
    let is_data = |it: &Chunk| matches!(it, Chunk::Data(_));
    assert!(sent.iter().any(|it| it.chunks.iter().any(is_data)));
}

/// Otherwise a peer could direct data to other hosts.
#[test]
fn who_brings_a_cookie_from_another_of_its_addresses_gets_data_once_that_answers() {
    let mut endpoint = endpoint();
    let listed = hawser_wire::sctp::Parameter::Address(crate::testing::ip("203.0.113.5"));
    let answer = init_ack(&mut endpoint, from_away(), init(PEER, vec![listed]));
    let victim = route(HOME, "203.0.113.5");
    let handled = endpoint.handle_datagram(later(), victim, echo(&answer));
    let Handled::Accepted(_, mut association) = handled else {
        panic!("not accepted: {handled:?}");
    };
    say(&mut association);
    let mut now = later();
    for _ in 0..20 {
        while let Some(transmit) = association.poll_transmit(now) {
            for chunk in Sent::of(&transmit).chunks {
                assert!(
                    matches!(chunk, Chunk::CookieAck | Chunk::Heartbeat(_)),
                    "{chunk:?}"
                );
            }
        }
        now = association.poll_timeout().unwrap();
        association.handle_timeout(now);
    }
}

fn say(association: &mut crate::Association) {
    let message = crate::Message::new(vec![1].into());
    let stream = hawser_wire::sctp::StreamNumber::new(0);
    association.send(later(), stream, message).unwrap();
}
