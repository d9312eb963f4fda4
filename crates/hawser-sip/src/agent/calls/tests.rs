mod stage;

use std::time::Duration;

use bytes::Bytes;

use super::*;
use stage::{ALICE, BOB, CAROL, Kept, Stage, TestHost};

/// An answer, and the message that follows it at once.
const MOMENT: Duration = Duration::from_millis(100);

fn ended(stage: &Stage, host: usize) -> Vec<Option<CallProblem>> {
    let events = stage.hosts[host].events.iter();
    let problems = events.filter_map(|event| match event {
        CallEvent::Ended { problem, .. } => Some(problem.clone()),
        CallEvent::Reached { .. } => None,
    });
    problems.collect()
}

/// The message with another body.
fn with_body(text: &str, change: impl Fn(&str) -> String) -> String {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if body.is_empty() {
        return text.to_owned();
    }
    let body = change(body);
    let lines = head.split("\r\n").map(|line| match line {
        line if line.starts_with("Content-Length:") => format!("Content-Length: {}", body.len()),
        line => line.to_owned(),
    });
    format!("{}\r\n\r\n{body}", lines.collect::<Vec<_>>().join("\r\n"))
}

#[test]
fn after_one_round_trip_each_knows_where_the_other_is() {
    let mut stage = Stage::new();
    let begun = stage.now;
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached(), ["192.0.2.2"]);
    assert_eq!(stage.hosts[BOB].reached(), ["192.0.2.1"]);
    // Two hops each way.
    assert_eq!(stage.hosts[BOB].times[0].since(begun), stage.delay * 2);
    assert_eq!(stage.hosts[ALICE].times[0].since(begun), stage.delay * 4);
    // A second call changes nothing while the first one exists.
    stage.call(ALICE, "bob");
    stage.call(BOB, "alice");
    stage.pass(MOMENT);
    assert_eq!(
        stage.hosts[ALICE].events.len() + stage.hosts[BOB].events.len(),
        2
    );
}

#[test]
fn of_two_that_call_each_other_one_call_stays() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.call(BOB, "alice");
    stage.pass(Duration::from_secs(60));
    for (host, other) in [(ALICE, "192.0.2.2"), (BOB, "192.0.2.1")] {
        let reached = stage.hosts[host].reached();
        assert!(
            !reached.is_empty() && reached.iter().all(|it| it == other),
            "{reached:?}"
        );
        assert_eq!(ended(&stage, host), []);
        assert_eq!(stage.hosts[host].agent.call_count(), 1);
    }
    stage.move_to(ALICE, "192.0.2.11");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[BOB].reached().last().unwrap(), "192.0.2.11");
}

#[test]
fn a_host_that_gives_way_waits_for_the_other_call_even_if_that_is_late() {
    for late in [ALICE, BOB] {
        let mut stage = Stage::new();
        let name = ["alice", "bob"][late];
        let (mut is_lost, invite) = (false, format!("INVITE sip:{name}@"));
        // The first call to this host is lost, and retransmitted after half a second.
        stage.lie = Box::new(move |text| {
            let is_first = text.starts_with(&invite) && !std::mem::replace(&mut is_lost, true);
            (!is_first).then(|| text.to_owned())
        });
        stage.call(ALICE, "bob");
        stage.call(BOB, "alice");
        stage.pass(Duration::from_secs(20));
        for (host, other) in [(ALICE, "192.0.2.2"), (BOB, "192.0.2.1")] {
            let reached = stage.hosts[host].reached();
            assert!(reached.contains(&other.to_owned()), "{name}: {reached:?}");
            assert_eq!(ended(&stage, host), [], "{name}");
            assert_eq!(stage.hosts[host].agent.call_count(), 1);
        }
    }
}

#[test]
fn a_host_that_is_busy_and_does_not_call_has_refused() {
    let mut stage = Stage::new();
    stage.lie = Box::new(|text| {
        let is_answer = text.starts_with("SIP/2.0 200 ") && text.contains("CSeq: 1 INVITE");
        Some(if is_answer {
            text.replace("SIP/2.0 200 OK", "SIP/2.0 486 Busy Here")
        } else {
            text.to_owned()
        })
    });
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(ended(&stage, ALICE), []);
    stage.pass(Duration::from_secs(5));
    let refused = CallProblem::Refused(StatusCode::BUSY_HERE);
    assert_eq!(ended(&stage, ALICE), [Some(refused)]);
    stage.pass(Duration::from_secs(20));
    assert_eq!(ended(&stage, ALICE).len(), 1);
}

#[test]
fn both_may_move_at_the_same_moment() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(Duration::from_secs(60));
    let begun = stage.now;
    stage.move_to(ALICE, "192.0.2.11");
    stage.move_to(BOB, "192.0.2.12");
    stage.pass(Duration::from_secs(60));
    for (host, other) in [(ALICE, "192.0.2.12"), (BOB, "192.0.2.11")] {
        let place = stage.hosts[host]
            .reached()
            .iter()
            .position(|it| it == other);
        let first = stage.hosts[host].reached().len() - 1;
        assert!(place.is_some_and(|place| place <= first));
        assert_eq!(ended(&stage, host), []);
    }
    // The call takes no longer than the registration and the notification.
    let heard = |host: usize| {
        let host = &stage.hosts[host];
        let mut heard = host.reached().into_iter().zip(&host.times);
        let (_, at) = heard
            .find(|(address, _)| {
                address.starts_with("192.0.2.1") && address.len() > "192.0.2.1".len()
            })
            .unwrap();
        at.since(begun)
    };
    assert!(heard(ALICE) <= stage.delay * 10, "{:?}", heard(ALICE));
    assert!(heard(BOB) <= stage.delay * 10, "{:?}", heard(BOB));
}

#[test]
fn each_moves_again_while_the_other_is_away() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    // Bob is unreachable for a while, and the directory notices only when he is back.
    let was_at = stage.hosts[BOB].at.take();
    stage.move_to(ALICE, "192.0.2.11");
    stage.pass(Duration::from_secs(10));
    stage.hosts[BOB].at = was_at;
    stage.move_to(BOB, "192.0.2.12");
    stage.pass(Duration::from_secs(40));
    assert_eq!(stage.hosts[ALICE].reached().last().unwrap(), "192.0.2.12");
    assert_eq!(stage.hosts[BOB].reached().last().unwrap(), "192.0.2.11");
    assert_eq!(ended(&stage, ALICE), []);
}

#[test]
fn a_host_that_moves_while_the_directory_is_away_keeps_its_call() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    // The directory's messages are lost, for longer than a request is retransmitted.
    stage.lie = Box::new(|_| None);
    stage.move_to(ALICE, "192.0.2.11");
    stage.pass(Duration::from_secs(40));
    stage.move_to(ALICE, "192.0.2.12");
    stage.pass(Duration::from_secs(60));
    assert_eq!(ended(&stage, ALICE), []);
    stage.lie = Box::new(|text| Some(text.to_owned()));
    stage.pass(Duration::from_secs(100));
    assert_eq!(stage.hosts[BOB].reached().last().unwrap(), "192.0.2.12");
    for host in [ALICE, BOB] {
        assert_eq!(ended(&stage, host), []);
        assert_eq!(stage.hosts[host].agent.call_count(), 1);
    }
}

#[test]
fn a_host_that_has_started_anew_is_found_again() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    // Bob was killed, and does not know the call.
    stage.hosts[BOB] = TestHost::new("bob", 2, &[("alice", 1)], 1001);
    stage.move_to(BOB, "192.0.2.12");
    stage.pass(Duration::from_secs(3));
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached(), ["192.0.2.2"]);
    stage.call_anew(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached(), ["192.0.2.2", "192.0.2.12"]);
    assert_eq!(stage.hosts[BOB].reached(), ["192.0.2.1"]);
    assert_eq!(ended(&stage, ALICE), []);
    assert_eq!(stage.hosts[ALICE].agent.call_count(), 1);
}

#[test]
fn an_unknown_host_is_refused_with_the_reason() {
    let mut stage = Stage::new();
    stage.call(CAROL, "alice");
    stage.pass(MOMENT);
    assert_eq!(ended(&stage, CAROL), [Some(CallProblem::NotKnownThere)]);
    assert_eq!(stage.hosts[ALICE].events, []);
    stage.call(ALICE, "dave");
    stage.pass(MOMENT);
    assert_eq!(ended(&stage, ALICE), [Some(CallProblem::NotRegistered)]);
    // Alice does not know Carol's key.
    stage.call(ALICE, "carol");
    stage.pass(MOMENT);
    assert!(stage.hosts[CAROL].reached() == ["192.0.2.1"]);
    let doubt = CallProblem::Doubt(Doubt::Stranger);
    assert_eq!(ended(&stage, ALICE)[1], Some(doubt));
}

#[test]
fn an_unknown_host_does_not_learn_which_hosts_are_known() {
    let answers = ["alice", "mallory"].map(|claimed| {
        let mut stage = Stage::new();
        // Carol, whom Bob does not know, calls as Alice, whom he knows, and as Mallory.
        stage.lie = Box::new(move |text| {
            let is_call = text.starts_with("INVITE sip:bob@");
            Some(if is_call {
                text.replace("From: <sip:carol@", &format!("From: <sip:{claimed}@"))
            } else {
                text.to_owned()
            })
        });
        stage.call(CAROL, "bob");
        stage.pass(MOMENT);
        let carol = stage.hosts[CAROL].at.unwrap();
        let is_final = |(to, bytes): &&(_, Bytes)| {
            *to == carol && bytes.starts_with(b"SIP/2.0 ") && !bytes.starts_with(b"SIP/2.0 1")
        };
        let heard = stage.seen.iter().rfind(is_final);
        let (_, answer) = heard.unwrap();
        let text = std::str::from_utf8(answer).unwrap().replace(claimed, "x");
        assert_eq!(stage.hosts[BOB].events, [], "{claimed}");
        text
    });
    assert!(answers[0].starts_with("SIP/2.0 603 "), "{}", answers[0]);
    // Every part of the answer is compared: a single header line could reveal as much.
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn a_directory_that_lies_about_addresses_is_not_believed() {
    let mut stage = Stage::new();
    stage.lie = Box::new(|text| {
        let is_invite = text.starts_with("INVITE ");
        let lie = |body: &str| body.replace(" 192.0.2.", " 203.0.113.");
        Some(if is_invite {
            with_body(text, lie)
        } else {
            text.to_owned()
        })
    });
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[BOB].events, []);
    assert_eq!(ended(&stage, ALICE), [Some(CallProblem::NotKnownThere)]);
    // The same for a forged answer.
    stage.lie = Box::new(|text| {
        let lie = |body: &str| body.replace(" 192.0.2.", " 203.0.113.");
        Some(if text.starts_with("SIP/2.0 200") {
            with_body(text, lie)
        } else {
            text.to_owned()
        })
    });
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached(), [""; 0]);
    assert_eq!(
        ended(&stage, ALICE)[1],
        Some(CallProblem::Doubt(Doubt::Wrong))
    );
    // The same when a host moves: the earlier addresses stay.
    stage.lie = Box::new(|text| Some(text.to_owned()));
    stage.pass(Duration::from_secs(40));
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    let before = stage.hosts[BOB].reached();
    stage.lie = Box::new(|text| {
        let lie = |body: &str| body.replace(" 192.0.2.", " 203.0.113.");
        Some(if text.starts_with("UPDATE ") {
            with_body(text, lie)
        } else {
            text.to_owned()
        })
    });
    stage.move_to(ALICE, "192.0.2.11");
    stage.pass(Duration::from_secs(5));
    assert_eq!(stage.hosts[BOB].reached(), before);
    assert_eq!(stage.hosts[ALICE].agent.call_count(), 1);
}

#[test]
fn a_directory_that_replays_what_was_said_is_not_believed() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    let at = stage.hosts[BOB].at.unwrap();
    let is_call = |(to, bytes): &&(_, Bytes)| *to == at && bytes.starts_with(b"INVITE ");
    let (_, invite) = stage.seen.iter().find(is_call).cloned().unwrap();
    stage.move_to(ALICE, "192.0.2.11");
    // Longer than any transaction remembers the INVITE.
    stage.pass(Duration::from_secs(100));
    let before = stage.hosts[BOB].events.clone();
    assert_eq!(stage.hosts[BOB].reached().last().unwrap(), "192.0.2.11");
    let text = std::str::from_utf8(&invite).unwrap();
    for (number, text) in [
        text.to_owned(),
        text.replace("branch=z9hG4bK", "branch=z9hG4bKx"),
        // In another call the signature is for the first one.
        text.replace("Call-ID: ", "Call-ID: 1"),
    ]
    .into_iter()
    .enumerate()
    {
        stage.inject(at, &Bytes::from(text));
        assert_eq!(stage.hosts[BOB].events, before, "{number}");
        assert_eq!(stage.hosts[BOB].agent.call_count(), 1, "{number}");
    }
    // A copy of the latest description is refused too, after the call.
    let bob = stage::sip("sip:bob@example.org");
    let now = stage.now;
    stage.hosts[ALICE].agent.hang_up(now, &bob);
    stage.pass(MOMENT);
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    let is_call = |(to, bytes): &&(_, Bytes)| *to == at && bytes.starts_with(b"INVITE ");
    let (_, invite) = stage.seen.iter().rfind(is_call).cloned().unwrap();
    stage.hosts[ALICE].agent.hang_up(stage.now, &bob);
    stage.pass(Duration::from_secs(100));
    let before = stage.hosts[BOB].events.clone();
    stage.inject(at, &invite);
    assert_eq!(stage.hosts[BOB].events, before);
    assert_eq!(stage.hosts[BOB].agent.call_count(), 0);
}

#[test]
fn a_description_from_before_a_restart_is_not_believed_after_it() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    let at = stage.hosts[BOB].at.unwrap();
    let mut seen = stage.seen.iter();
    let is_call = |(to, bytes): &&(_, Bytes)| *to == at && bytes.starts_with(b"INVITE ");
    let (_, invite) = seen.find(is_call).cloned().unwrap();
    let kept = Kept::clone(&stage.hosts[BOB].kept);
    assert_eq!(kept.lock().unwrap().len(), 1);
    for (number, kept, events) in [(1001, Kept::default(), 1), (1002, kept, 0)] {
        stage.hosts[BOB] = TestHost::restarted("bob", 2, &[("alice", 1)], (number, kept));
        stage.move_to(BOB, "192.0.2.2");
        stage.pass(Duration::from_secs(3));
        stage.inject(at, &invite);
        assert_eq!(stage.hosts[BOB].events.len(), events, "{number}");
    }
}

#[test]
fn the_answer_of_a_host_whose_clock_went_back_ends_the_call_with_the_cure() {
    let mut stage = Stage::new();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    // Bob is installed anew, with the same key.
    stage.hosts[BOB] = TestHost::new("bob", 2, &[("alice", 1)], 999);
    stage.move_to(BOB, "192.0.2.2");
    stage.pass(Duration::from_secs(3));
    let reached = stage.hosts[ALICE].reached();
    stage.call_anew(ALICE, "bob");
    stage.pass(MOMENT);
    let doubt = CallProblem::Doubt(Doubt::EarlierStart);
    assert!(doubt.to_string().contains("`hawser peers remove`"));
    assert_eq!(ended(&stage, ALICE).last(), Some(&Some(doubt)));
    assert_eq!(stage.hosts[ALICE].reached(), reached);
    assert_eq!(stage.hosts[ALICE].agent.call_count(), 0);
    // Bob is removed and added.
    stage.hosts[ALICE].kept.lock().unwrap().clear();
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached().len(), reached.len() + 1);
}

#[test]
fn a_directory_that_swaps_users_joins_no_hosts() {
    let mut stage = Stage::new();
    // Alice's description for Bob arrives at Carol, who knows Alice.
    let invite = {
        stage.call(ALICE, "bob");
        stage.pass(MOMENT);
        let mut calls = stage.seen.iter().rev();
        let is_call = |bytes: &Bytes| bytes.starts_with(b"INVITE ");
        calls.find(|(_, bytes)| is_call(bytes)).cloned().unwrap().1
    };
    let carol = stage.hosts[CAROL].at.unwrap();
    let text = std::str::from_utf8(&invite).unwrap();
    stage.inject(carol, &invite);
    let to_carol = text.replace("To: <sip:bob@", "To: <sip:carol@");
    assert_ne!(to_carol, text);
    stage.inject(
        carol,
        &Bytes::from(to_carol.replace("branch=z9hG4bK", "branch=z9hG4bKx")),
    );
    assert_eq!(stage.hosts[CAROL].events, []);
    assert_eq!(stage.hosts[CAROL].agent.call_count(), 0);
    // Carol's description arrives at Bob under Alice's name.
    let bob = stage.hosts[BOB].at.unwrap();
    let before = stage.hosts[BOB].events.clone();
    stage.call(CAROL, "bob");
    stage.pass(MOMENT);
    let calls = stage
        .seen
        .iter()
        .filter(|(to, bytes)| *to == bob && bytes.starts_with(b"INVITE "));
    let (_, invite) = calls.last().cloned().unwrap();
    let text = std::str::from_utf8(&invite).unwrap();
    let as_alice = text
        .replace("<sip:carol@", "<sip:alice@")
        .replace("z9hG4bK", "z9hG4bKx");
    stage.inject(bob, &Bytes::from(as_alice));
    assert_eq!(stage.hosts[BOB].events, before);
    assert_eq!(stage.hosts[BOB].agent.call_count(), 1);
}

#[test]
fn requests_of_strangers_leave_no_session_behind() {
    let mut stage = Stage::new();
    stage.call(CAROL, "bob");
    stage.pass(MOMENT);
    let bob = stage.hosts[BOB].at.unwrap();
    let mut calls = stage.seen.iter();
    let is_call = |(to, bytes): &&(_, Bytes)| *to == bob && bytes.starts_with(b"INVITE ");
    let (_, invite) = calls.find(is_call).cloned().unwrap();
    let text = std::str::from_utf8(&invite).unwrap();
    for number in 0..1000 {
        let again = text.replace("z9hG4bK", &format!("z9hG4bK{number}x"));
        stage.inject(bob, &Bytes::from(again));
    }
    assert_eq!(stage.hosts[BOB].agent.call_count(), 0);
    stage.pass(Duration::from_secs(100));
    // A known host can still call.
    stage.call(ALICE, "bob");
    stage.pass(MOMENT);
    assert_eq!(stage.hosts[ALICE].reached(), ["192.0.2.2"]);
}
