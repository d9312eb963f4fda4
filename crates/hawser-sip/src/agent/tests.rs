use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::*;
use crate::digest::{Algorithm, Answerer, Secret, Verifier};
use crate::fields::{CallId, NameAddr, Q, Via};
use crate::message::{HeaderName, Request, Response, StatusCode};
use crate::registrar::{LocationLimits, Registrar, Users};
use crate::uri::SipUri;

const ALICE: &str = "sip:alice@example.org";

struct Alice;

impl Users for Alice {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        let is_known = username == "alice";
        is_known.then(|| Secret::new(algorithm, "alice", "example.org", "a"))
    }

    fn may_register(&self, _: &str, address_of_record: &str) -> bool {
        address_of_record == ALICE
    }
}

fn uri(text: &str) -> SipUri {
    let uri: crate::uri::Uri = text.parse().unwrap();
    uri.as_sip().unwrap().clone()
}

fn care_of(text: &str, thousandths: u16) -> CareOf {
    let q = Q::from_thousandths(thousandths).unwrap();
    CareOf { uri: uri(text), q }
}

/// A registration with this crate's registrar.
struct Stage {
    now: Instant,
    registration: Registration,
    registrar: Registrar,
    requests: u32,
}

impl Stage {
    fn new(password: &str, outbound: Option<(String, u32)>) -> Self {
        let answerer = Answerer::new("alice", password, Algorithm::Sha256);
        let config = RegistrationConfig {
            registrar: uri("sip:example.org"),
            address: uri(ALICE),
            call_id: CallId::new("1@alice").unwrap(),
            tag: "t".to_owned(),
            lifetime: Duration::from_secs(600),
            outbound,
        };
        let lifetime = Duration::from_secs(60);
        let verifier = Verifier::new("example.org", &[1; 32], lifetime, &[Algorithm::Sha256]);
        let domains = vec!["example.org".parse().unwrap()];
        let limits = LocationLimits::default();
        Self {
            now: Instant::from_nanos(1_000_000_000_000),
            registration: Registration::new(config, Some(answerer)),
            registrar: Registrar::new(domains, verifier, limits, "r"),
            requests: 0,
        }
    }

    fn request(&mut self) -> Option<Request> {
        let mut via: Via = Via::new(
            crate::fields::Transport::Udp,
            "192.0.2.1".parse().unwrap(),
            None,
        );
        via.params
            .set("branch", &format!("z9hG4bK{}", self.requests));
        let request = self.registration.poll_request(self.now, &via, "c")?;
        request.essentials().unwrap();
        self.requests += 1;
        Some(request)
    }

    fn answer(&mut self, request: &Request) -> Response {
        let source: IpAddr = "192.0.2.1".parse().unwrap();
        self.registrar
            .handle_register(self.now, source, request, &Alice)
    }

    /// Lets the registrar answer the request that is due now.
    fn exchange(&mut self) -> Vec<RegistrationEvent> {
        while let Some(request) = self.request() {
            let answer = self.answer(&request);
            self.registration.handle_response(self.now, &answer);
        }
        std::iter::from_fn(|| self.registration.poll_event()).collect()
    }

    fn registered(&mut self) -> Vec<String> {
        self.registrar.location_mut().handle_timeout(self.now);
        let bindings = self.registrar.location().lookup(self.now, ALICE);
        let text = |contact: NameAddr| contact.to_string();
        bindings
            .iter()
            .map(|b| text(b.to_contact(self.now)))
            .collect()
    }
}

#[test]
fn care_of_addresses_are_registered_and_refreshed_in_time() {
    let mut stage = Stage::new("a", None);
    let contacts = vec![
        care_of("sip:a@192.0.2.1", 800),
        care_of("sip:a@198.51.100.1", 200),
    ];
    stage.registration.set_contacts(stage.now, contacts);
    for _ in 0..5 {
        let events = stage.exchange();
        let [RegistrationEvent::Registered { bindings, until }] = &events[..] else {
            panic!("{events:?}");
        };
        assert_eq!(bindings.len(), 2);
        assert_eq!(*until, stage.now + Duration::from_secs(600));
        let due = stage.registration.poll_timeout().unwrap();
        assert!(due > stage.now && due < *until);
        stage.now = due;
        assert_eq!(stage.registered().len(), 2, "it ended before its refresh");
    }
    // One challenge each time that the nonce was too old, and the request itself.
    assert_eq!(stage.requests, 10);
}

#[test]
fn a_change_is_told_at_once_with_what_went() {
    let mut stage = Stage::new("a", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    stage.exchange();
    let contacts = vec![
        care_of("sip:a@192.0.2.2", 700),
        care_of("sip:a@192.0.2.3", 300),
    ];
    stage.registration.set_contacts(stage.now, contacts.clone());
    stage.exchange();
    let expected = [
        "<sip:a@192.0.2.2>;q=0.7;expires=600",
        "<sip:a@192.0.2.3>;q=0.3;expires=600",
    ];
    assert_eq!(stage.registered(), expected);
    let requests = stage.requests;
    stage.registration.set_contacts(stage.now, contacts);
    assert_eq!(stage.exchange(), []);
    assert_eq!(stage.requests, requests);
    stage.registration.set_contacts(stage.now, Vec::new());
    assert_eq!(stage.exchange(), [RegistrationEvent::Removed]);
    assert_eq!(stage.registered(), [""; 0]);
    assert_eq!(stage.registration.poll_timeout(), None);
}

#[test]
fn a_change_during_a_request_is_told_after_it() {
    let mut stage = Stage::new("a", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    let request = stage.request().unwrap();
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.2", 1000)]);
    assert_eq!(stage.registration.poll_timeout(), None);
    let answer = stage.answer(&request);
    stage.registration.handle_response(stage.now, &answer);
    stage.exchange();
    assert_eq!(stage.registered(), ["<sip:a@192.0.2.2>;q=1;expires=600"]);
}

#[test]
fn a_request_that_got_no_answer_may_have_come_all_the_same() {
    let mut stage = Stage::new("a", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    stage.exchange();
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.2", 1000)]);
    let request = stage.request().unwrap();
    stage.answer(&request);
    stage.registration.handle_failure(stage.now);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.3", 1000)]);
    stage.exchange();
    assert_eq!(stage.registered(), ["<sip:a@192.0.2.3>;q=1;expires=600"]);
}

#[test]
fn addresses_that_come_and_go_without_an_answer_take_no_room() {
    let mut stage = Stage::new("a", None);
    for number in 0..100 {
        let contact = care_of(&format!("sip:a@host{number}.example"), 1000);
        stage.registration.set_contacts(stage.now, vec![contact]);
        let request = stage.request().unwrap();
        let contacts = request.headers.raw(&HeaderName::Contact).count();
        assert!(contacts <= 17, "{contacts}");
        stage.registration.handle_failure(stage.now);
    }
}

#[test]
fn pauses_grow_while_the_registrar_is_silent() {
    let mut stage = Stage::new("a", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    let mut pauses = Vec::new();
    for _ in 0..10 {
        stage.request().unwrap();
        stage.registration.handle_failure(stage.now);
        let due = stage.registration.poll_timeout().unwrap();
        pauses.push(due.since(stage.now).as_secs());
        stage.now = due;
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    let events: Vec<_> = std::iter::from_fn(|| stage.registration.poll_event()).collect();
    assert_eq!(events.len(), 10);
}

#[test]
fn a_wrong_password_is_not_tried_all_the_time() {
    let mut stage = Stage::new("wrong", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    let events = stage.exchange();
    let next = stage.now + Duration::from_secs(300);
    let refused = RegistrationFault::Challenge(crate::digest::ChallengeFault::Refused);
    assert_eq!(
        events,
        [RegistrationEvent::Failed {
            fault: refused,
            next
        }]
    );
    assert_eq!(stage.requests, 2);
}

#[test]
fn answers_of_a_registrar_that_lies_do_no_harm() {
    for (status, contacts, pause) in [
        (StatusCode::OK, "", 2),
        (StatusCode::OK, "*", 2),
        (StatusCode::OK, "<sip:b@192.0.2.9>;expires=600", 2),
        (StatusCode::OK, "<sip:a@192.0.2.1>;expires=x", 300),
        (StatusCode::OK, "<sip:a@192.0.2.1>;expires=0", 5),
        (StatusCode::OK, "<sip:a@192.0.2.1>;expires=4294967295", 480),
        (StatusCode::INTERVAL_TOO_BRIEF, "", 300),
        (StatusCode::UNAUTHORIZED, "", 300),
        (StatusCode::MOVED_TEMPORARILY, "<sip:evil.example>", 300),
        (StatusCode::SERVICE_UNAVAILABLE, "", 300),
    ] {
        let mut stage = Stage::new("a", None);
        stage
            .registration
            .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
        let request = stage.request().unwrap();
        let mut answer = Response::new(&request, status, Some("r"));
        if !contacts.is_empty() {
            answer.headers.push(HeaderName::Contact, contacts);
        }
        answer.headers.push(HeaderName::MinExpires, "4000000000");
        answer
            .headers
            .push(HeaderName::RetryAfter, "99999999999999999");
        if status.is_success() {
            answer.headers.remove(&HeaderName::RetryAfter);
        }
        stage.registration.handle_response(stage.now, &answer);
        // An unexpected answer changes nothing.
        stage.registration.handle_response(stage.now, &answer);
        let due = stage.registration.poll_timeout().unwrap();
        assert_eq!(due.since(stage.now).as_secs(), pause, "{status} {contacts}");
    }
}

#[test]
fn a_registrar_that_wants_longer_registrations_gets_them() {
    let mut stage = Stage::new("a", None);
    stage
        .registration
        .set_contacts(stage.now, vec![care_of("sip:a@192.0.2.1", 1000)]);
    let request = stage.request().unwrap();
    let mut answer = Response::new(&request, StatusCode::INTERVAL_TOO_BRIEF, Some("r"));
    answer.headers.push(HeaderName::MinExpires, "1800");
    stage.registration.handle_response(stage.now, &answer);
    stage.exchange();
    assert_eq!(stage.registered(), ["<sip:a@192.0.2.1>;q=1;expires=1800"]);
}

#[test]
fn a_link_with_a_number_replaces_its_address() {
    let mut stage = Stage::new("a", Some(("<urn:uuid:1>".to_owned(), 2)));
    for host in ["192.0.2.1", "192.0.2.2"] {
        let contact = care_of(&format!("sip:a@{host}"), 1000);
        stage.registration.set_contacts(stage.now, vec![contact]);
        stage.exchange();
    }
    let expected = "<sip:a@192.0.2.2>;+sip.instance=\"<urn:uuid:1>\";reg-id=2;q=1;expires=600";
    assert_eq!(stage.registered(), [expected]);
}
