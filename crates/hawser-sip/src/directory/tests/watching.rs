use super::*;
use crate::fields::{CallId, Field as _, NameAddr, Via};
use crate::reginfo::PACKAGE;
use crate::subscription::{Subscription, SubscriptionConfig, SubscriptionEvent};

const BOB: &str = "192.0.2.50:5060";

/// Bob, who watches alice.
struct Watcher {
    subscription: Subscription,
    from: &'static str,
}

impl Watcher {
    fn new(stage: &Stage, name: &str, watched: &str) -> Self {
        let name_addr = |text: &str| NameAddr::new(text.parse().unwrap());
        let config = SubscriptionConfig {
            local: name_addr(&format!("sip:{name}@example.org")),
            remote: name_addr(watched),
            contact: format!("sip:{name}@192.0.2.50").parse().unwrap(),
            call_id: CallId::new(&format!("w-{name}")).unwrap(),
            tag: format!("t-{name}"),
            lifetime: Duration::from_secs(600),
        };
        let answerer = Answerer::new(name, "p", Algorithm::Sha256);
        Self {
            subscription: Subscription::new(stage.now, config, Some(answerer)),
            from: BOB,
        }
    }

    /// Sends requests until there is a final response, and returns it.
    fn ask(&mut self, stage: &mut Stage) -> Response {
        loop {
            let branch = stage.words.next_branch();
            let via = format!("SIP/2.0/UDP 192.0.2.50;rport;branch={branch}");
            let via = Via::parse(&via).unwrap();
            let request = self.subscription.poll_request(stage.now, &via, "c");
            let answer = answer(&stage.send(self.from, request.unwrap()));
            self.subscription.handle_response(stage.now, &answer);
            if answer.status != StatusCode::UNAUTHORIZED {
                return answer;
            }
        }
    }

    /// Contacts in the directory's NOTIFY.
    fn hear(&mut self, stage: &mut Stage) -> Vec<Vec<String>> {
        let mut heard = Vec::new();
        loop {
            stage.keep();
            let outputs = stage.outputs();
            if outputs.is_empty() {
                return heard;
            }
            let (to, notify) = sent(&outputs);
            assert_eq!((to, &notify.method), (at(self.from), &Method::Notify));
            assert!(self.subscription.is_of(&notify.essentials().unwrap()));
            let answer = self.subscription.handle_notify(stage.now, &notify);
            assert_eq!(answer.status, StatusCode::OK);
            assert!(stage.send(self.from, answer).is_empty());
            let contacts = self.subscription.contacts().into_iter();
            heard.push(contacts.map(|it| it.uri.to_string()).collect());
        }
    }
}

impl Stage {
    /// Does what the owner does after each change.
    fn keep(&mut self) {
        while self.directory.poll_change().is_some() {}
        self.pass(Duration::ZERO);
    }
}

#[test]
fn a_user_is_told_of_each_change_of_another_ones_contacts() {
    let mut stage = Stage::new();
    let mut bob = Watcher::new(&stage, "bob", ALICE);
    let granted = bob.ask(&mut stage);
    assert_eq!(granted.status, StatusCode::OK);
    assert_eq!(stage.directory.counts().subscribes, 1);
    assert_eq!(bob.hear(&mut stage), [[""; 0]]);
    stage.register(&["<sip:alice@192.0.2.1>;q=0.5", "<sip:alice@192.0.2.2>;q=0.7"]);
    let both = ["sip:alice@192.0.2.2", "sip:alice@192.0.2.1"];
    assert_eq!(bob.hear(&mut stage), [both]);
    // The refresh has a proof of its own, and full state is sent again.
    stage.now = bob.subscription.poll_timeout().unwrap();
    assert_eq!(bob.ask(&mut stage).status, StatusCode::OK);
    assert_eq!(bob.hear(&mut stage), [both]);
    assert_eq!(stage.directory.watcher_count(), 1);
    // The contacts expire first, then the subscription.
    stage.pass(Duration::from_secs(3600));
    assert_eq!(stage.directory.watcher_count(), 0);
    stage.pass(Duration::from_secs(60));
    assert_eq!(stage.directory.transactions.counts(), (0, 0));
    assert!(stage.directory.told.is_empty());
}

#[test]
fn strangers_watch_no_user_and_leave_no_state() {
    let mut stage = Stage::new();
    let mut eve = Watcher::new(&stage, "eve", ALICE);
    let via = "SIP/2.0/UDP 192.0.2.50;branch=z9hG4bKe";
    let via = Via::parse(via).unwrap();
    let asked = eve.subscription.poll_request(stage.now, &via, "c").unwrap();
    let refused = answer(&stage.send(BOB, asked.clone()));
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(stage.holds_nothing());
    for (uri, to, expected) in [
        ("sip:alice@example.org", "<sip:alice@example.net>", 404),
        ("sip:example.org", "<sip:example.org>", 404),
        ("sip:alice@example.net", "<sip:alice@example.net>", 403),
    ] {
        let mut other = asked.clone();
        other.uri = uri.parse().unwrap();
        other.headers.set(HeaderName::To, to);
        let refused = answer(&stage.send(BOB, other));
        assert_eq!(refused.status.as_u16(), expected, "{uri}");
    }
    assert_eq!(stage.directory.watcher_count(), 0);
    assert!(stage.holds_nothing());
}

#[test]
fn the_owner_decides_who_may_watch_whom() {
    let mut stage = Stage::new();
    // Every user may watch all but Carol.
    let mut bob = Watcher::new(&stage, "bob", "sip:carol@example.org");
    assert_eq!(bob.ask(&mut stage).status, StatusCode::NOT_FOUND);
    assert!(matches!(
        bob.subscription.poll_event(),
        Some(SubscriptionEvent::Failed { .. })
    ));
    assert_eq!(stage.directory.watcher_count(), 0);
}

#[test]
fn unresponsive_and_removed_watchers_are_not_notified() {
    let mut stage = Stage::new();
    for way in ["silent", "refuses", "is struck off"] {
        let mut bob = Watcher::new(&stage, "bob", ALICE);
        bob.ask(&mut stage);
        stage.keep();
        let (_, notify) = sent(&stage.outputs());
        assert_eq!(stage.directory.watcher_count(), 1);
        match way {
            "silent" => stage.pass(Duration::from_secs(33)),
            "refuses" => {
                let refusal = respond(&notify, StatusCode::NO_TRANSACTION);
                assert!(stage.send(BOB, refusal).is_empty());
            }
            _ => stage.directory.retain_watchers(|user| user != "bob"),
        }
        assert_eq!(stage.directory.watcher_count(), 0, "{way}");
        stage.outputs();
        stage.pass(Duration::from_secs(100));
        stage.outputs();
    }
}

#[test]
fn a_watcher_over_a_stream_is_notified_over_it() {
    let mut stage = Stage::new();
    let (now, source) = (stage.now, at("192.0.2.50:40000"));
    let open = stage
        .directory
        .handle_connection(now, Transport::Tls, source);
    let flow = open.unwrap();
    let mut bob = Watcher::new(&stage, "bob", ALICE);
    let send = |bob: &mut Watcher, stage: &mut Stage, branch: &str| {
        let via = format!("SIP/2.0/TLS 10.0.0.9;branch=z9hG4bK{branch}");
        let via = Via::parse(&via).unwrap();
        let request = bob.subscription.poll_request(now, &via, "c").unwrap();
        stage.directory.handle_bytes(now, flow, &request.to_bytes());
        let answer = answer(&stage.outputs());
        bob.subscription.handle_response(now, &answer);
        answer
    };
    send(&mut bob, &mut stage, "1");
    let granted = send(&mut bob, &mut stage, "2");
    assert_eq!(granted.status, StatusCode::OK);
    let contact = granted.headers.raw(&HeaderName::Contact).next().unwrap();
    assert_eq!(contact, "<sip:example.org;transport=tls>");
    stage.keep();
    let outputs = stage.outputs();
    assert!(matches!(outputs[..], [Output::Stream { flow: to, .. }] if to == flow));
    let Message::Request(notify) = message(&outputs[0]) else {
        panic!("{outputs:?}");
    };
    assert_eq!(notify.headers.vias().unwrap()[0].transport, Transport::Tls);
    assert_eq!(notify.headers.raw(&HeaderName::Event).next(), Some(PACKAGE));
}

#[test]
fn other_event_packages_are_for_who_is_registered() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let mut asked = stage.request(Method::Subscribe, "sip:bob@example.net", ALICE);
    asked.headers.push(HeaderName::Event, "presence");
    let (to, onward) = sent(&stage.send(CALLER, asked));
    assert_eq!(
        (to, onward.method),
        (at("192.0.2.1:5060"), Method::Subscribe)
    );
}
