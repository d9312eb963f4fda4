use std::time::Duration;

use super::*;
use crate::digest::{Answerer, Challenge};
use crate::message::{Datagram, Limits, Message, read_datagram};

struct OnlyAlice;

impl Users for OnlyAlice {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        let password = match username {
            "alice" => "a",
            "bob" => "b",
            _ => return None,
        };
        Some(Secret::new(algorithm, username, "example.org", password))
    }

    fn may_register(&self, username: &str, address_of_record: &str) -> bool {
        username == "alice" && address_of_record == ALICE
    }
}

const ALICE: &str = "sip:alice@example.org";

/// A registrar, and a client that knows its password.
struct Stage {
    registrar: Registrar,
    now: Instant,
    cseq: u32,
    answerer: Answerer,
}

impl Stage {
    fn new(limits: LocationLimits) -> Self {
        let lifetime = Duration::from_secs(300);
        let verifier = Verifier::new("example.org", &[1; 32], lifetime, &[Algorithm::Sha256]);
        let domains = vec!["example.org".parse().unwrap()];
        Self {
            registrar: Registrar::new(domains, verifier, limits, "r"),
            now: Instant::from_nanos(1_000_000_000_000),
            cseq: 0,
            answerer: Answerer::new("alice", "a", Algorithm::Sha256),
        }
    }

    fn handle(&mut self, request: &Request) -> Response {
        let source = "192.0.2.1".parse().unwrap();
        let answer = self
            .registrar
            .handle_register(self.now, source, request, &OnlyAlice);
        // It can be sent, and read.
        let read = read_datagram(&answer.to_bytes(), &Limits::default()).unwrap();
        let Datagram::Message {
            message: Message::Response(read),
            ..
        } = read
        else {
            panic!("it is an answer");
        };
        read.essentials().unwrap();
        answer
    }

    /// Sends a REGISTER, with a proof if challenged.
    fn register(&mut self, headers: &[(HeaderName, &str)]) -> Response {
        self.cseq += 1;
        let mut request = request(self.cseq);
        for (name, value) in headers {
            request.headers.set(name.clone(), value);
        }
        self.prove(request)
    }

    fn prove(&mut self, mut request: Request) -> Response {
        for _ in 0..2 {
            let proof = self
                .answerer
                .credentials(&Method::Register, "sip:example.org", "c");
            if let Some(proof) = proof {
                request.headers.set(HeaderName::Authorization, proof);
            }
            let answer = self.handle(&request);
            if answer.status != StatusCode::UNAUTHORIZED {
                self.answerer.handle_success();
                return answer;
            }
            let challenges = answer.headers.raw(&HeaderName::WwwAuthenticate);
            let challenges: Vec<_> = challenges
                .map(|text| Challenge::parse(text).unwrap())
                .collect();
            self.answerer.handle_challenges(&challenges).unwrap();
        }
        panic!("the proof is not accepted");
    }

    fn contacts(&self) -> Vec<String> {
        let bindings = self.registrar.location().lookup(self.now, ALICE);
        bindings
            .iter()
            .map(|b| b.to_contact(self.now).to_string())
            .collect()
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.registrar.location_mut().handle_timeout(self.now);
    }
}

fn request(cseq: u32) -> Request {
    let mut request = Request::new(Method::Register, "sip:example.org".parse().unwrap());
    for (name, value) in [
        (HeaderName::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1"),
        (HeaderName::From, "<sip:alice@example.org>;tag=a"),
        (HeaderName::To, "<sip:alice@example.org>"),
        (HeaderName::CallId, "1@alice"),
    ] {
        request.headers.push(name, value);
    }
    request
        .headers
        .push(HeaderName::CSeq, format!("{cseq} REGISTER"));
    request
}

fn changes(location: &mut Location) -> Vec<String> {
    std::iter::from_fn(|| location.poll_change()).collect()
}

#[test]
fn contacts_are_kept_with_their_preference_and_end_in_time() {
    let mut stage = Stage::new(LocationLimits::default());
    let contacts = "<sip:alice@192.0.2.1>;q=0.25, <sip:alice@[2001:db8::1]>;q=0.75;expires=100";
    let answer = stage.register(&[
        (HeaderName::Contact, contacts),
        (HeaderName::Expires, "200"),
    ]);
    assert_eq!(answer.status, StatusCode::OK);
    let first = "<sip:alice@[2001:db8::1]>;q=0.75;expires=100";
    let second = "<sip:alice@192.0.2.1>;q=0.25;expires=200";
    let listed: Vec<_> = answer.headers.raw(&HeaderName::Contact).collect();
    assert_eq!(listed, [first, second]);
    assert_eq!(changes(stage.registrar.location_mut()), [ALICE]);
    stage.pass(100);
    assert_eq!(
        stage.contacts(),
        ["<sip:alice@192.0.2.1>;q=0.25;expires=100"]
    );
    assert_eq!(changes(stage.registrar.location_mut()), [ALICE]);
    // A REGISTER without contacts returns the current ones.
    let answer = stage.register(&[]);
    assert_eq!(answer.headers.raw(&HeaderName::Contact).count(), 1);
    assert_eq!(changes(stage.registrar.location_mut()), [""; 0]);
    stage.pass(100);
    assert!(stage.registrar.location().is_empty());
    assert_eq!(stage.registrar.location().poll_timeout(), None);
}

#[test]
fn one_request_changes_all_that_it_names_or_nothing() {
    let mut stage = Stage::new(LocationLimits::default());
    stage.register(&[(HeaderName::Contact, "<sip:a@1.example>, <sip:a@2.example>")]);
    stage.register(&[(
        HeaderName::Contact,
        "<sip:a@1.example>;expires=0, <sip:a@2.example>;q=0.5, <sip:a@3.example>;q=0.1",
    )]);
    let expected = [
        "<sip:a@2.example>;q=0.5;expires=3600",
        "<sip:a@3.example>;q=0.1;expires=3600",
    ];
    assert_eq!(stage.contacts(), expected);
    for (contacts, expires, status) in [
        (
            "<sip:a@4.example>, <sip:a@5.example>;expires=5",
            "3600",
            423,
        ),
        ("<sip:a@4.example>, <tel:1>", "3600", 400),
        ("<sip:a@4.example>, <sip:a@5.example?a=b>", "3600", 400),
        ("<sip:a@4.example>, <sip:a@4.example>;q=0.2", "3600", 400),
        ("<sip:a@4.example>;q=1.5", "3600", 400),
        (
            "<sip:a@4.example>;+sip.instance=\"<x>\";reg-id=0",
            "3600",
            400,
        ),
        ("<sip:a@4.example>, <sip:a@5.example> x", "3600", 400),
        ("*", "3600", 400),
    ] {
        let answer = stage.register(&[
            (HeaderName::Contact, contacts),
            (HeaderName::Expires, expires),
        ]);
        assert_eq!(answer.status.as_u16(), status, "{contacts}");
        let least = answer
            .headers
            .min_expires()
            .unwrap()
            .map(|seconds| seconds.0);
        assert_eq!(least, (status == 423).then_some(60));
        assert_eq!(stage.contacts(), expected);
    }
    stage.register(&[(HeaderName::Contact, "*"), (HeaderName::Expires, "0")]);
    assert!(stage.registrar.location().is_empty());
}

#[test]
fn an_older_request_changes_nothing() {
    let mut stage = Stage::new(LocationLimits::default());
    stage.cseq = 10;
    stage.register(&[(HeaderName::Contact, "<sip:a@1.example>")]);
    let before = stage.contacts();
    stage.cseq = 5;
    for (contact, expires) in [("<sip:a@1.example>", "0"), ("*", "0")] {
        let answer = stage.register(&[
            (HeaderName::Contact, contact),
            (HeaderName::Expires, expires),
        ]);
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        assert_eq!(stage.contacts(), before);
    }
    // Another Call-ID has its own numbers: the host has restarted.
    let answer = stage.register(&[
        (HeaderName::CallId, "2@alice"),
        (HeaderName::Contact, "<sip:a@1.example>;q=0.1"),
    ]);
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(stage.contacts(), ["<sip:a@1.example>;q=0.1;expires=3600"]);
}

#[test]
fn a_new_address_of_a_link_replaces_the_old_one() {
    let mut stage = Stage::new(LocationLimits::default());
    let contact = |host: &str, link: u32| {
        format!("<sip:a@{host}>;+sip.instance=\"<urn:uuid:1>\";reg-id={link};q=0.5")
    };
    for (host, link) in [("192.0.2.1", 1), ("192.0.2.2", 2), ("192.0.2.3", 1)] {
        stage.register(&[(HeaderName::Contact, &contact(host, link))]);
    }
    let bindings = stage.registrar.location().lookup(stage.now, ALICE);
    let mut hosts: Vec<_> = bindings.iter().map(|b| b.contact.uri.to_string()).collect();
    hosts.sort();
    assert_eq!(hosts, ["sip:a@192.0.2.2", "sip:a@192.0.2.3"]);
    assert_eq!(
        bindings[0].contact.params.value("+sip.instance"),
        Some("<urn:uuid:1>")
    );
}

#[test]
fn the_path_to_a_contact_is_kept_and_told() {
    let mut stage = Stage::new(LocationLimits::default());
    let path = "<sip:p1.example;lr>, <sip:p2.example;lr>";
    let answer = stage.register(&[
        (HeaderName::Contact, "<sip:a@1.example>"),
        (HeaderName::Path, path),
        (HeaderName::Require, "path"),
    ]);
    assert_eq!(
        answer.headers.raw(&HeaderName::Path).collect::<Vec<_>>(),
        [path]
    );
    let bindings = stage.registrar.location().lookup(stage.now, ALICE);
    assert_eq!(bindings[0].path.len(), 2);
}

#[test]
fn a_restart_loses_nothing_valid() {
    let mut before = Stage::new(LocationLimits::default());
    let contacts = "<sip:a@1.example>;q=0.5;expires=100, <sip:a@2.example>;q=0.25";
    before.register(&[(HeaderName::Contact, contacts)]);
    let kept: Vec<_> = before.registrar.location().iter().collect();
    let mut after = Stage::new(LocationLimits::default());
    after.pass(100);
    for (address, bindings) in kept {
        let location = after.registrar.location_mut();
        location
            .restore(after.now, address, bindings.to_vec())
            .unwrap();
    }
    assert_eq!(after.contacts(), ["<sip:a@2.example>;q=0.25;expires=3500"]);
    // An older request is still recognised.
    let answer = after.register(&[(HeaderName::Contact, "<sip:a@2.example>;expires=0")]);
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[test]
fn the_table_is_bounded() {
    let limits = LocationLimits {
        max_contacts: 2,
        max_addresses: 1,
        ..LocationLimits::default()
    };
    let mut stage = Stage::new(limits);
    let answer = stage.register(&[(
        HeaderName::Contact,
        "<sip:a@1.example>, <sip:a@2.example>, <sip:a@3.example>",
    )]);
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert!(stage.registrar.location().is_empty());
    stage.register(&[(HeaderName::Contact, "<sip:a@1.example>")]);
    let (now, location) = (stage.now, stage.registrar.location_mut());
    let bindings = location.bindings(now, ALICE);
    let refused = location
        .set(now, "sip:other@example.org", bindings)
        .unwrap_err();
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    // Expired bindings make room.
    let later = now + Duration::from_secs(3600);
    let mut bindings = location.bindings(now, ALICE);
    bindings[0].expires = later + Duration::from_secs(1);
    location
        .set(later, "sip:other@example.org", bindings)
        .unwrap();
    assert_eq!(location.len(), 1);
}

#[test]
fn only_who_proves_to_be_the_user_changes_bindings() {
    let mut stage = Stage::new(LocationLimits::default());
    let mut asked = request(1);
    asked.headers.push(HeaderName::Contact, "<sip:a@1.example>");
    let answer = stage.handle(&asked);
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let challenge = answer
        .headers
        .raw(&HeaderName::WwwAuthenticate)
        .next()
        .unwrap();
    let challenge = Challenge::parse(challenge).unwrap();
    for (user, password, status) in [
        ("alice", "wrong", 401),
        ("nobody", "", 401),
        ("bob", "b", 403),
        ("alice", "a", 200),
    ] {
        let mut answerer = Answerer::new(user, password, Algorithm::Sha256);
        answerer
            .handle_challenges(std::slice::from_ref(&challenge))
            .unwrap();
        let proof = answerer.credentials(&Method::Register, "sip:example.org", "c");
        let mut proven = asked.clone();
        // Credentials of other schemes do no harm.
        proven.headers.push(
            HeaderName::Authorization,
            "NoOneKnowsThisScheme opaque-data=here",
        );
        proven
            .headers
            .push(HeaderName::Authorization, proof.unwrap());
        assert!(stage.registrar.location().is_empty());
        assert_eq!(stage.handle(&proven).status.as_u16(), status, "{user}");
    }
}

#[test]
fn what_is_longer_than_a_row_has_room_for_is_refused() {
    let mut stage = Stage::new(LocationLimits::default());
    let contact = |length: usize| format!("<sip:{}@192.0.2.1>", "a".repeat(length - 16));
    let path = |length: usize| format!("<sip:p.example;{};lr>", "x".repeat(length - 19));
    for (name, of) in [
        (HeaderName::Contact, contact as fn(usize) -> String),
        (HeaderName::Path, path),
    ] {
        let mut register = |length| {
            let value = of(length);
            assert_eq!(value.len(), length);
            let mut headers = vec![(HeaderName::Contact, "<sip:alice@192.0.2.1>")];
            headers.push((name.clone(), &value));
            headers.push((HeaderName::Supported, "path"));
            stage.register(&headers).status.as_u16()
        };
        assert_eq!((register(512), register(513)), (200, 400), "{name}");
    }
    let call_id = "1".repeat(513);
    let refused = stage.register(&[
        (HeaderName::Contact, "<sip:alice@192.0.2.1>"),
        (HeaderName::CallId, &call_id),
    ]);
    assert!(
        refused.reason().contains("513 bytes"),
        "{}",
        refused.reason()
    );
}

#[test]
fn other_domains_and_people_without_a_name_are_not_found() {
    let mut stage = Stage::new(LocationLimits::default());
    for to in [
        "<sip:alice@other.example>",
        "<sip:example.org>",
        "<isbn:2983792873>",
    ] {
        let mut asked = request(1);
        asked.headers.set(HeaderName::To, to);
        assert_eq!(stage.handle(&asked).status, StatusCode::NOT_FOUND, "{to}");
    }
    let mut asked = request(1);
    asked.uri = "sip:other.example".parse().unwrap();
    assert_eq!(stage.handle(&asked).status, StatusCode::NOT_FOUND);
    let mut asked = request(1);
    asked.headers.push(HeaderName::Require, "unheard-of");
    assert_eq!(stage.handle(&asked).status, StatusCode::BAD_EXTENSION);
}
