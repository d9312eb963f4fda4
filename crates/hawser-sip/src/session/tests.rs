mod pair;

use proptest::prelude::*;

use super::*;
use crate::fields::Field as _;
use crate::message::{HeaderName, Method};
use pair::{Pair, own};

fn accepted(text: &str) -> SessionEvent {
    SessionEvent::Accepted(Bytes::copy_from_slice(text.as_bytes()))
}

fn updated(text: &str) -> SessionEvent {
    SessionEvent::Updated(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_session_is_opened_changed_by_both_ends_and_ended() {
    let mut pair = Pair::new(&[]);
    pair.run();
    assert_eq!(pair.alice.heard, [accepted("bob at 1")]);
    assert_eq!(pair.bob.offers, ["alice at 1"]);
    pair.alice.session().set_own(own("alice", 2));
    pair.run();
    assert_eq!(pair.bob.offers, ["alice at 1", "alice at 2"]);
    pair.bob.session().set_own(own("bob", 2));
    pair.run();
    assert_eq!(pair.alice.offers, ["bob at 2"]);
    assert_eq!(pair.bob.heard, [updated("alice at 2")]);
    // Each end knows the other's new address.
    let target = |end: &mut pair::End| end.session().dialog().unwrap().next_hop().to_string();
    assert_eq!(target(&mut pair.bob), "sip:alice@host2.example");
    assert_eq!(target(&mut pair.alice), "sip:bob@host2.example");
    pair.bob.session().hang_up();
    pair.run();
    assert_eq!(
        pair.alice.heard.last(),
        Some(&SessionEvent::Ended(EndReason::Remote))
    );
    assert_eq!(
        pair.bob.heard.last(),
        Some(&SessionEvent::Ended(EndReason::Local))
    );
    assert!(pair.alice.session().is_over() && pair.bob.session().is_over());
}

#[test]
fn both_ends_may_move_at_once() {
    let mut pair = Pair::new(&[]);
    pair.run();
    let begun = pair.now;
    pair.alice.session().set_own(own("alice", 2));
    pair.bob.session().set_own(own("bob", 2));
    pair.run_until(|pair| pair.alice.offers.len() + pair.bob.offers.len() == 3);
    // The two cross, and each is accepted.
    assert_eq!(pair.now.since(begun), pair::DELAY);
    assert_eq!(pair.alice.offers, ["bob at 2"]);
    assert_eq!(pair.bob.offers, ["alice at 1", "alice at 2"]);
    pair.run();
    assert_eq!(pair.alice.heard.last(), Some(&updated("bob at 2")));
    assert!(!pair.alice.session().is_over() && !pair.bob.session().is_over());
}

#[test]
fn an_update_from_the_far_end_replaces_a_lost_own_update() {
    // Alice's UPDATE goes to Bob's old address, each time.
    let mut pair = Pair::new(&[]);
    pair.run();
    pair.alice.session().set_own(own("alice", 2));
    pair.lose(&[true]);
    pair.step();
    pair.bob.session().set_own(own("bob", 2));
    pair.lose(&[
        false, false, true, true, true, true, true, true, true, true, true, true, true,
    ]);
    pair.run();
    assert_eq!(pair.bob.heard, [updated("alice at 2")]);
    assert_eq!(pair.alice.offers, ["bob at 2"]);
    // It sent another UPDATE since then, because the lost response could have had news.
    assert_eq!(pair.alice.heard.last(), Some(&updated("bob at 2")));
}

#[test]
fn an_unreachable_far_end_is_asked_again() {
    let mut pair = Pair::new(&[]);
    pair.run();
    pair.bob.is_away = true;
    pair.alice.session().set_own(own("alice", 2));
    pair.run_until(|pair| pair.bob.turned_away == 3);
    pair.bob.is_away = false;
    pair.run();
    assert_eq!(pair.bob.offers.last().unwrap(), "alice at 2");
    assert!(!pair.alice.session().is_over());
}

#[test]
fn a_change_that_is_lost_for_minutes_is_told_when_the_network_is_back() {
    let mut pair = Pair::new(&[]);
    pair.run();
    pair.alice.session().set_own(own("alice", 2));
    // An UPDATE is sent eleven times before it fails: three UPDATEs are lost.
    pair.lose(&[true; 33]);
    let begun = pair.now;
    pair.run();
    assert!(pair.now.since(begun) > std::time::Duration::from_secs(96));
    assert_eq!(pair.bob.offers, ["alice at 1", "alice at 2"]);
    assert_eq!(pair.alice.heard.last(), Some(&updated("bob at 1")));
    assert!(!pair.alice.session().is_over() && !pair.bob.session().is_over());
}

#[test]
fn a_change_during_a_change_is_told_after_it() {
    let mut pair = Pair::new(&[]);
    pair.run();
    pair.alice.session().set_own(own("alice", 2));
    pair.step();
    pair.alice.session().set_own(own("alice", 3));
    pair.run();
    assert_eq!(pair.bob.offers, ["alice at 1", "alice at 2", "alice at 3"]);
}

#[test]
fn a_description_that_is_refused_leaves_the_session_as_it_was() {
    let mut pair = Pair::new(&[]);
    pair.run();
    pair.bob.refuses = true;
    pair.alice.session().set_own(own("forged", 2));
    pair.run();
    assert_eq!(pair.alice.heard.len(), 1);
    assert!(!pair.alice.session().is_over());
    pair.bob.refuses = false;
    pair.alice.session().set_own(own("alice", 3));
    pair.run();
    assert_eq!(pair.bob.offers.last().unwrap(), "alice at 3");
}

#[test]
fn a_call_that_is_refused_or_not_answered_ends() {
    let mut pair = Pair::new(&[]);
    pair.bob.refuses = true;
    pair.run();
    let reason = EndReason::Refused(StatusCode::NOT_ACCEPTABLE_HERE);
    assert_eq!(pair.alice.heard, [SessionEvent::Ended(reason)]);
    let mut pair = Pair::new(&[true; 100]);
    pair.run();
    assert_eq!(pair.alice.heard, [SessionEvent::Ended(EndReason::NoAnswer)]);
    assert_eq!(pair.bob.offers, [""; 0]);
}

#[test]
fn a_call_that_is_given_up_is_cancelled_once_the_far_end_is_heard_of() {
    let mut pair = Pair::new(&[]);
    pair.bob.is_ringing = true;
    pair.step();
    pair.alice.session().hang_up();
    pair.run();
    assert_eq!(pair.alice.heard, [SessionEvent::Ended(EndReason::Local)]);
    assert!(pair.bob.was_cancelled);
}

#[test]
fn an_acceptance_that_crosses_the_giving_up_is_ended() {
    let mut pair = Pair::new(&[]);
    pair.alice.poll(pair.now);
    pair.alice.session().hang_up();
    pair.run();
    assert_eq!(pair.alice.heard, [SessionEvent::Ended(EndReason::Local)]);
    assert_eq!(pair.bob.heard, [SessionEvent::Ended(EndReason::Remote)]);
}

#[test]
fn a_called_end_that_hangs_up_at_once_waits_for_the_ack() {
    // The ACK is lost once: the second 2xx brings another one.
    let mut pair = Pair::new(&[false, false, true]);
    while pair.bob.session.is_none() {
        pair.step();
    }
    pair.bob.session().hang_up();
    assert!(!pair.bob.session().is_over());
    pair.run();
    let expected = [accepted("bob at 1"), SessionEvent::Ended(EndReason::Remote)];
    assert_eq!(pair.alice.heard, expected);
    assert_eq!(pair.bob.heard, [SessionEvent::Ended(EndReason::Local)]);
}

#[test]
fn a_second_accepting_end_gets_an_ack_and_a_bye() {
    let mut pair = Pair::new(&[]);
    pair.run();
    let call = pair.alice.invite.clone().unwrap();
    let mut other = outgoing::success(&call, Some("other"), &own("other", 9));
    let session = pair.alice.session();
    session.handle_response(pair.now, &other);
    let via = crate::fields::Via::parse("SIP/2.0/UDP h;branch=z9hG4bKx").unwrap();
    let Some(Outgoing::Ack(ack)) = session.poll_outgoing(pair.now, &via) else {
        panic!("a 2xx is acknowledged");
    };
    let Some(Outgoing::Request(bye)) = session.poll_outgoing(pair.now, &via) else {
        panic!("one session is enough");
    };
    assert_eq!(bye.method, Method::Bye);
    for request in [&ack, &bye] {
        assert_eq!(request.uri.to_string(), "sip:other@host9.example");
        assert_eq!(request.headers.to().unwrap().tag(), Some("other"));
    }
    // Many further answers take no memory.
    for number in 0..1000 {
        let to = format!("<sip:bob@example.org>;tag=o{number}");
        other.headers.set(HeaderName::To, to);
        session.handle_response(pair.now, &other);
    }
    assert!(session.queue.len() <= 17);
    assert!(!session.is_over());
}

#[test]
fn requests_that_a_session_does_not_know_are_refused() {
    let mut pair = Pair::new(&[]);
    pair.run();
    let via = crate::fields::Via::parse("SIP/2.0/UDP h;branch=z9hG4bKx").unwrap();
    let mut dialog = pair.alice.session().dialog().unwrap().clone();
    for (method, status) in [
        (Method::Options, 200),
        (Method::Subscribe, 405),
        (Method::Update, 200),
        (Method::Bye, 200),
        (Method::Update, 481),
    ] {
        let request = dialog.request(method.clone(), &via);
        let Incoming::Answer(answer) = pair.bob.session().handle_request(&request) else {
            panic!("{method} is answered");
        };
        assert_eq!(answer.status.as_u16(), status, "{method}");
    }
}

proptest! {
    /// Whatever messages are lost, both ends agree, or know that there is no session.
    #[test]
    fn ends_agree_whatever_is_lost(lost in proptest::collection::vec(any::<bool>(), 0..60)) {
        let mut pair = Pair::new(&lost);
        pair.run();
        if !pair.alice.session().is_over() {
            pair.alice.session().set_own(own("alice", 2));
            pair.run();
        }
        let (alice, bob) = (&mut pair.alice, &mut pair.bob);
        if !alice.session().is_over() {
            let is_told = bob.offers.last().is_some_and(|offer| offer == "alice at 2");
            prop_assert!(is_told || bob.session().is_over());
            alice.session().hang_up();
            pair.run();
        }
        prop_assert!(pair.alice.session().is_over());
        let ends = pair.alice.heard.iter().filter(|event| matches!(event, SessionEvent::Ended(_)));
        prop_assert_eq!(ends.count(), 1);
        prop_assert_eq!(pair.alice.transactions.counts(), (0, 0));
        prop_assert_eq!(pair.bob.transactions.counts(), (0, 0));
    }
}
