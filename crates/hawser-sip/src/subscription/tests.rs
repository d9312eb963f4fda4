use std::time::Duration;

use hawser_types::Instant;

use super::*;
use crate::digest::{Algorithm, Verifier};
use crate::fields::{CallId, Field as _, NameAddr, Via};
use crate::message::{HeaderName, Method, Request, Response, StatusCode};
use crate::registrar::{LocationLimits, Origin, Registrar};
use crate::testing::Everybody;

/// A registrar with a notifier, and a subscriber that watches Bob.
struct Stage {
    now: Instant,
    registrar: Registrar,
    notifier: Notifier,
    subscription: Subscription,
    cseq: u32,
}

fn via() -> Via {
    Via::parse("SIP/2.0/UDP h.example;branch=z9hG4bK1").unwrap()
}

fn name(text: &str) -> NameAddr {
    NameAddr::new(text.parse().unwrap())
}

impl Stage {
    fn new(limits: NotifierLimits) -> Self {
        let now = Instant::from_nanos(1_000_000_000_000);
        let lifetime = Duration::from_secs(3600);
        let verifier = Verifier::new("example.org", &[1; 32], lifetime, &[Algorithm::Sha256]);
        let domains = vec!["example.org".parse().unwrap()];
        let config = SubscriptionConfig {
            local: name("sip:alice@example.org"),
            remote: name("sip:bob@example.org"),
            contact: "sip:alice@192.0.2.1".parse().unwrap(),
            call_id: CallId::new("1@alice").unwrap(),
            tag: "a".to_owned(),
            lifetime: Duration::from_secs(600),
        };
        Self {
            now,
            registrar: Registrar::new(domains, verifier, LocationLimits::default(), "r"),
            notifier: Notifier::new(limits),
            subscription: Subscription::new(now, config, None),
            cseq: 0,
        }
    }

    /// Bob registers these contacts, and no others.
    fn register(&mut self, contacts: &str) {
        use crate::digest::{Answerer, Challenge};
        self.cseq += 1;
        let mut request = Request::new(Method::Register, "sip:example.org".parse().unwrap());
        let headers = &mut request.headers;
        headers.push(HeaderName::Via, via());
        headers.push(HeaderName::From, "<sip:bob@example.org>;tag=b");
        headers.push(HeaderName::To, "<sip:bob@example.org>");
        headers.push(HeaderName::CallId, "1@bob");
        headers.push(HeaderName::CSeq, format!("{} REGISTER", self.cseq));
        headers.push(HeaderName::Contact, contacts);
        let source = "192.0.2.2".parse().unwrap();
        let asked = self
            .registrar
            .handle_register(self.now, source, &request, &Everybody);
        let challenge = asked
            .headers
            .raw(&HeaderName::WwwAuthenticate)
            .next()
            .unwrap();
        let mut answerer = Answerer::new("bob", "p", Algorithm::Sha256);
        answerer
            .handle_challenges(&[Challenge::parse(challenge).unwrap()])
            .unwrap();
        let proof = answerer.credentials(&Method::Register, "sip:example.org", "c");
        request
            .headers
            .push(HeaderName::Authorization, proof.unwrap());
        let answer = self
            .registrar
            .handle_register(self.now, source, &request, &Everybody);
        assert_eq!(answer.status, StatusCode::OK);
    }

    /// Handles everything that is due.
    fn run(&mut self) -> Vec<SubscriptionEvent> {
        while let Some(request) = self.subscription.poll_request(self.now, &via(), "c") {
            request.essentials().unwrap();
            let answer = self.subscribe(&request, "n");
            self.subscription.handle_response(self.now, &answer);
        }
        let location = self.registrar.location_mut();
        location.handle_timeout(self.now);
        while let Some(address) = location.poll_change() {
            self.notifier.handle_change(&address);
        }
        self.notifier.handle_timeout(self.now);
        while let Some(notify) = self.notify() {
            let essentials = notify.request.essentials().unwrap();
            let answer = if self.subscription.is_of(&essentials) {
                self.subscription.handle_notify(self.now, &notify.request)
            } else {
                Response::new(&notify.request, StatusCode::NO_TRANSACTION, None)
            };
            self.notifier
                .handle_outcome(notify.watcher, Some(answer.status));
        }
        std::iter::from_fn(|| self.subscription.poll_event()).collect()
    }

    fn subscribe(&mut self, request: &Request, tag: &str) -> Response {
        self.subscribe_as("alice", request, tag)
    }

    fn subscribe_as(&mut self, user: &str, request: &Request, tag: &str) -> Response {
        let subscriber = Subscriber {
            user,
            origin: Origin::default(),
            tag,
            contact: "sip:registrar.example.org",
        };
        self.notifier
            .handle_subscribe(self.now, request, &subscriber)
    }

    fn notify(&mut self) -> Option<Notify> {
        let location = self.registrar.location();
        self.notifier.poll_notify(self.now, location, &via())
    }

    fn contacts(&self) -> Vec<String> {
        let contacts = self.subscription.contacts();
        contacts
            .iter()
            .map(|contact| contact.uri.to_string())
            .collect()
    }
}

#[test]
fn a_subscriber_is_told_of_each_change() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.register("<sip:bob@192.0.2.2>;q=0.2");
    assert_eq!(stage.run(), [SubscriptionEvent::Changed]);
    assert_eq!(stage.contacts(), ["sip:bob@192.0.2.2"]);
    assert_eq!(stage.run(), []);
    stage.register("<sip:bob@192.0.2.3>;q=0.8, <sip:bob@192.0.2.2>;q=0.1");
    assert_eq!(stage.run(), [SubscriptionEvent::Changed]);
    assert_eq!(stage.contacts(), ["sip:bob@192.0.2.3", "sip:bob@192.0.2.2"]);
    stage.now += Duration::from_secs(3601);
    stage.run();
    assert_eq!(stage.contacts(), [""; 0]);
}

#[test]
fn a_subscription_is_refreshed_and_ends_without_a_refresh() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.run();
    for _ in 0..5 {
        stage.now = stage.subscription.poll_timeout().unwrap();
        stage.run();
        assert_eq!(stage.notifier.len(), 1);
    }
    let end = stage.notifier.poll_timeout().unwrap();
    assert_eq!(end, stage.now + Duration::from_secs(600));
    stage.now = end;
    stage.notifier.handle_timeout(stage.now);
    let last = stage.notify().unwrap().request;
    let state = last.headers.subscription_state().unwrap().unwrap();
    assert_eq!(state.state, "terminated");
    assert!(stage.notifier.is_empty());
    let answer = stage.subscription.handle_notify(stage.now, &last);
    assert_eq!(answer.status, StatusCode::OK);
    // A new subscription starts automatically.
    stage.now += Duration::from_secs(2);
    stage.run();
    assert_eq!(stage.notifier.len(), 1);
}

#[test]
fn a_registrar_that_has_forgotten_is_asked_anew() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.register("<sip:bob@192.0.2.2>");
    stage.run();
    stage.notifier = Notifier::new(NotifierLimits::default());
    stage.now = stage.subscription.poll_timeout().unwrap();
    let events = stage.run();
    let fault = SubscriptionFault::Refused(StatusCode::NO_TRANSACTION);
    let next = stage.now + Duration::from_secs(2);
    assert_eq!(events, [SubscriptionEvent::Failed { fault, next }]);
    // The last contacts stay until a new document arrives.
    assert_eq!(stage.contacts(), ["sip:bob@192.0.2.2"]);
    stage.now = next;
    stage.run();
    assert_eq!((stage.notifier.len(), stage.contacts().len()), (1, 1));
}

#[test]
fn a_change_during_a_notify_is_sent_after_it() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.run();
    stage.register("<sip:bob@192.0.2.2>");
    stage.notifier.handle_change("sip:bob@example.org");
    let first = stage.notify().unwrap();
    stage.notifier.handle_change("sip:bob@example.org");
    assert_eq!(stage.notify(), None);
    stage
        .notifier
        .handle_outcome(first.watcher, Some(StatusCode::OK));
    let second = stage.notify().unwrap();
    assert_eq!(second.watcher, first.watcher);
    // A subscriber that does not answer is not notified again.
    stage.notifier.handle_outcome(second.watcher, None);
    assert!(stage.notifier.is_empty());
}

#[test]
fn removed_users_are_not_notified_and_no_user_refreshes_anothers_subscription() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.run();
    stage.now = stage.subscription.poll_timeout().unwrap();
    let refresh = stage.subscription.poll_request(stage.now, &via(), "c");
    let of_eve = Subscriber {
        user: "eve",
        origin: Origin::default(),
        tag: "n9",
        contact: "sip:registrar.example.org",
    };
    let refresh = refresh.unwrap();
    let refused = stage
        .notifier
        .handle_subscribe(stage.now, &refresh, &of_eve);
    assert_eq!(refused.status, StatusCode::NO_TRANSACTION);
    stage.notifier.retain_users(|user| user == "alice");
    assert_eq!(stage.notifier.len(), 1);
    stage.notifier.handle_change("sip:bob@example.org");
    stage.notifier.retain_users(|_| false);
    assert!(stage.notifier.is_empty() && stage.notify().is_none());
    assert_eq!(stage.notifier.poll_timeout(), None);
}

#[test]
fn subscriptions_are_bounded() {
    let limits = NotifierLimits {
        max_watchers: 2,
        max_watchers_each: 1,
        max_expires: Duration::from_secs(60),
        ..NotifierLimits::default()
    };
    let mut stage = Stage::new(limits);
    let request = stage
        .subscription
        .poll_request(stage.now, &via(), "c")
        .unwrap();
    let granted = stage
        .subscribe(&request, "n1")
        .headers
        .expires()
        .unwrap()
        .unwrap();
    assert_eq!(granted.0, 60);
    for (to, status) in [
        ("<sip:bob@example.org>", 503),
        ("<sip:carol@example.org>", 200),
        ("<sip:dave@example.org>", 503),
        ("<sip:bob@example.org>;tag=unknown", 481),
    ] {
        let other = stage.subscribe(&to_request(&request, to), "n2");
        assert_eq!(other.status.as_u16(), status, "{to}");
    }
    let mut other = to_request(&request, "<sip:bob@example.org>");
    other.headers.set(HeaderName::Event, "presence");
    let refused = stage.subscribe(&other, "n3");
    assert_eq!(refused.status, StatusCode::BAD_EVENT);
    assert_eq!(
        refused.headers.raw(&HeaderName::AllowEvents).next(),
        Some("reg")
    );
    other.headers.set(HeaderName::Event, "reg");
    other.headers.set(HeaderName::To, "<sip:example.org>");
    assert_eq!(
        stage.subscribe(&other, "n4").status,
        StatusCode::BAD_REQUEST
    );
}

#[test]
fn one_user_does_not_take_the_places_of_others() {
    let limits = NotifierLimits {
        max_watchers_by_user: 10,
        max_watchers_each: 8,
        ..NotifierLimits::default()
    };
    let mut stage = Stage::new(limits);
    let request = stage.subscription.poll_request(stage.now, &via(), "c");
    let request = request.unwrap();
    let mut granted = |user: &str, to: &str| {
        let asked = to_request(&request, &format!("<sip:{to}@example.org>"));
        let tags = (0..12).map(|number| format!("{user}-{to}-{number}"));
        let asked = tags.filter(|tag| stage.subscribe_as(user, &asked, tag).status.is_success());
        asked.count()
    };
    // A quarter of the places at one address, and a fixed number in all.
    assert_eq!(granted("eve", "bob"), 2);
    assert_eq!(granted("alice", "bob"), 2);
    let all = (0..20).map(|number| granted("eve", &format!("u{number}")));
    assert_eq!(all.sum::<usize>(), 8);
    // Expired subscriptions make room.
    stage.notifier.retain_users(|user| user != "eve");
    assert_eq!(stage.notifier.len(), 2);
    let asked = to_request(&request, "<sip:bob@example.org>");
    let again = stage.subscribe_as("eve", &asked, "again");
    assert_eq!(again.status, StatusCode::OK);
}

fn to_request(request: &Request, to: &str) -> Request {
    let mut other = request.clone();
    other.headers.set(HeaderName::To, to);
    other
}

#[test]
fn a_malformed_notify_changes_nothing() {
    let mut stage = Stage::new(NotifierLimits::default());
    stage.register("<sip:bob@192.0.2.2>");
    stage.run();
    stage.notifier.handle_change("sip:bob@example.org");
    let good = stage.notify().unwrap().request;
    for (change, status) in [
        ((HeaderName::Event, "presence"), 489),
        ((HeaderName::SubscriptionState, "?"), 400),
    ] {
        let mut bad = good.clone();
        bad.headers.set(change.0, change.1);
        let answer = stage.subscription.handle_notify(stage.now, &bad);
        assert_eq!(answer.status.as_u16(), status);
    }
    let mut bad = good.clone();
    bad.body = "<reginfo/>".into();
    bad.headers.set(HeaderName::CSeq, "50 NOTIFY");
    let answer = stage.subscription.handle_notify(stage.now, &bad);
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    // The document is older than the previous one.
    assert_eq!(
        stage
            .subscription
            .handle_notify(stage.now, &good)
            .status
            .as_u16(),
        500
    );
    assert_eq!(stage.contacts(), ["sip:bob@192.0.2.2"]);
    let mut stranger = good.essentials().unwrap();
    stranger.from.params.set("tag", "other");
    assert!(!stage.subscription.is_of(&stranger));
}
