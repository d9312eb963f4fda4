mod watching;

use std::net::IpAddr;
use std::time::Duration;

use super::*;
use crate::digest::{Algorithm, Answerer, Challenge};
use crate::fields::Contacts;
use crate::message::{HeaderName, Limits, StatusCode};
use crate::testing::{Everybody, Everywhere};
use crate::uri::Uri;

const START: Instant = Instant::from_nanos(1_000_000_000);

struct Stage {
    now: Instant,
    directory: Directory,
    words: Words,
}

impl Stage {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut DirectoryConfig)) -> Self {
        let domains = vec!["example.org".parse().unwrap()];
        let own: Uri = "sip:198.51.100.1".parse().unwrap();
        let own = own.as_sip().unwrap().clone();
        let mut config = DirectoryConfig::new(domains, own, vec![at("198.51.100.1:5060")]);
        change(&mut config);
        Self {
            now: START,
            directory: Directory::new(
                config,
                (Box::new(Everybody), Box::new(Everywhere)),
                &[1; 32],
                &[2; 32],
            ),
            words: Words::new(&[3; 32]),
        }
    }

    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(at) = self.directory.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.directory.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn request(&mut self, method: Method, from: &str, to: &str) -> Request {
        let mut request = Request::new(method.clone(), to.parse().unwrap());
        let branch = self.words.next_branch();
        let headers = &mut request.headers;
        headers.push(
            HeaderName::Via,
            format!("SIP/2.0/UDP 192.0.2.99;rport;branch={branch}"),
        );
        headers.push(HeaderName::MaxForwards, 70);
        headers.push(HeaderName::From, format!("<{from}>;tag=1"));
        headers.push(HeaderName::To, format!("<{to}>"));
        headers.push(HeaderName::CallId, self.words.next_word());
        headers.push(HeaderName::CSeq, format!("1 {method}"));
        request
    }

    fn send(&mut self, from: &str, message: impl Into<Message>) -> Vec<Output> {
        let bytes = match message.into() {
            Message::Request(request) => request.to_bytes(),
            Message::Response(response) => response.to_bytes(),
        };
        self.directory
            .handle_datagram(self.now, 0, at(from), &bytes);
        self.outputs()
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.directory.poll_output()).collect()
    }

    /// A REGISTER of alice with the proof, made for the address that it is sent from.
    fn proven(&mut self, from: &str, contacts: &[&str]) -> Request {
        let alice = "sip:alice@example.org";
        let mut request = self.request(Method::Register, alice, alice);
        request.uri = "sip:example.org".parse().unwrap();
        for contact in contacts {
            request.headers.push(HeaderName::Contact, contact);
        }
        let asked = answer(&self.send(from, request.clone()));
        assert_eq!(asked.status, StatusCode::UNAUTHORIZED);
        let challenges = asked.headers.raw(&HeaderName::WwwAuthenticate);
        let challenges: Vec<_> = challenges.map(|it| Challenge::parse(it).unwrap()).collect();
        let mut answerer = Answerer::new("alice", "p", Algorithm::Sha256);
        answerer.handle_challenges(&challenges).unwrap();
        let proof = answerer.credentials(&Method::Register, "sip:example.org", "c");
        request
            .headers
            .set(HeaderName::Authorization, proof.unwrap());
        request
    }

    fn register(&mut self, contacts: &[&str]) {
        let request = self.proven("192.0.2.1:5060", contacts);
        let answer = answer(&self.send("192.0.2.1:5060", request));
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.reason());
    }

    fn holds_nothing(&self) -> bool {
        self.directory.transactions.counts() == (0, 0)
            && self.directory.forwarding.len() == 0
            && self.directory.flows.datagram_count() == 0
            && self.directory.location().is_empty()
    }
}

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn message(output: &Output) -> Message {
    let bytes = match output {
        Output::Datagram { bytes, .. } | Output::Stream { bytes, .. } => bytes,
        other => panic!("{other:?}"),
    };
    match read_datagram(bytes, &Limits::default()) {
        Ok(Datagram::Message { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

fn answer(outputs: &[Output]) -> Response {
    let [output] = outputs else {
        panic!("{outputs:?}");
    };
    match message(output) {
        Message::Response(response) => response,
        Message::Request(request) => panic!("{request:?}"),
    }
}

/// Returns the only sent request and its destination.
fn sent(outputs: &[Output]) -> (SocketAddr, Request) {
    let [output @ Output::Datagram { to, .. }] = outputs else {
        panic!("{outputs:?}");
    };
    match message(output) {
        Message::Request(request) => (*to, request),
        Message::Response(response) => panic!("{response:?}"),
    }
}

fn respond(request: &Request, status: StatusCode) -> Response {
    Response::new(request, status, Some("far"))
}

const CALLER: &str = "203.0.113.5:40000";
const ALICE: &str = "sip:alice@example.org";

#[test]
fn a_user_registers_and_who_does_not_know_the_password_leaves_nothing() {
    let mut stage = Stage::new();
    let request = stage.proven("192.0.2.1:5060", &["<sip:alice@192.0.2.1>;q=0.7"]);
    assert!(stage.holds_nothing());
    // The proof is valid only from the address that was challenged.
    let other = answer(&stage.send("192.0.2.2:5060", request.clone()));
    assert_eq!(other.status, StatusCode::UNAUTHORIZED);
    assert!(stage.holds_nothing());
    let first = stage.send("192.0.2.1:5060", request.clone());
    let accepted = answer(&first);
    assert_eq!(accepted.status, StatusCode::OK);
    let Ok(Contacts::List(contacts)) = accepted.headers.contacts() else {
        panic!("there is one");
    };
    assert_eq!(contacts.len(), 1);
    let via = &accepted.headers.vias().unwrap()[0];
    assert_eq!(via.params.value("received"), Some("192.0.2.1"));
    assert_eq!(via.params.value("rport"), Some("5060"));
    // Its repetition gets the same bytes as response.
    assert_eq!(stage.send("192.0.2.1:5060", request), first);
    assert_eq!(stage.directory.poll_change().as_deref(), Some(ALICE));
    stage.pass(Duration::from_secs(3700));
    assert_eq!(stage.directory.transactions.counts(), (0, 0));
    assert!(stage.directory.location().is_empty());
}

#[test]
fn an_overheard_proof_registers_no_other_client() {
    let mut stage = Stage::new();
    let request = stage.proven("192.0.2.1:5060", &["<sip:alice@192.0.2.1>"]);
    let accepted = answer(&stage.send("192.0.2.1:5060", request.clone()));
    assert_eq!(accepted.status, StatusCode::OK);
    // An eavesdropper reuses the proof from the same address in another request.
    let mut forged = stage.request(Method::Register, ALICE, ALICE);
    forged.uri = request.uri.clone();
    let proof = request.headers.raw(&HeaderName::Authorization).next();
    forged
        .headers
        .push(HeaderName::Authorization, proof.unwrap());
    forged
        .headers
        .push(HeaderName::Contact, "<sip:eve@203.0.113.66>");
    let refused = answer(&stage.send("192.0.2.1:5060", forged));
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    let challenge = refused.headers.raw(&HeaderName::WwwAuthenticate).next();
    assert!(Challenge::parse(challenge.unwrap()).unwrap().is_stale);
    let bindings = stage.directory.location().lookup(stage.now, ALICE);
    let contacts: Vec<_> = bindings.iter().map(|it| it.contact.to_string()).collect();
    assert_eq!(contacts, ["<sip:alice@192.0.2.1>"]);
}

#[test]
fn a_cancel_and_an_ack_of_nothing_are_no_more_than_answered() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let before = stage.directory.transactions.counts();
    let flows = stage.directory.flows.datagram_count();
    let cancel = stage.request(Method::Cancel, "sip:eve@example.net", ALICE);
    let refused = answer(&stage.send(CALLER, cancel));
    assert_eq!(refused.status, StatusCode::NO_TRANSACTION);
    // Both are forged: this proxy has not recorded the route.
    for method in [Method::Ack, Method::Bye] {
        let target = "sip:x@10.0.0.5:25;transport=tcp";
        let mut forged = stage.request(method.clone(), "sip:eve@example.net", target);
        let headers = &mut forged.headers;
        headers.set(HeaderName::To, "<sip:alice@example.org>;tag=far");
        headers.push(HeaderName::Route, "<sip:198.51.100.1;lr>");
        let outputs = stage.send(CALLER, forged);
        match method {
            Method::Ack => assert_eq!(outputs, []),
            _ => assert_eq!(answer(&outputs).status, StatusCode::FORBIDDEN),
        }
    }
    assert_eq!(stage.directory.transactions.counts(), before);
    assert_eq!(stage.directory.flows.datagram_count(), flows);
    assert_eq!(stage.directory.stream_count(), 0);
}

#[test]
fn a_request_in_which_something_cannot_be_read_is_refused_by_the_name_of_that() {
    let mut stage = Stage::new();
    let (alice, from) = ("sip:alice@example.org", "192.0.2.1:5060");
    for method in [
        Method::Register,
        Method::Invite,
        Method::Cancel,
        Method::Subscribe,
        Method::Ack,
    ] {
        let mut request = stage.request(method.clone(), alice, alice);
        request.headers.push(HeaderName::Contact, "<sip:a@b");
        let outputs = stage.send(from, request);
        if method == Method::Ack {
            assert_eq!(outputs, []);
            continue;
        }
        let answer = answer(&outputs);
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{method}");
        assert!(answer.reason().starts_with("Contact: "), "{method}");
    }
    assert_eq!(stage.directory.counts().not_admitted, 2);
    assert!(stage.holds_nothing());
}

#[test]
fn a_proof_does_not_outlive_a_restart_and_a_call_does() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let proven = stage.proven("192.0.2.1:5060", &["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let (_, forwarded) = sent(&stage.send(CALLER, invite.clone()));
    let route = forwarded.headers.raw(&HeaderName::RecordRoute).next();
    let mut bye = stage.request(Method::Bye, "sip:bob@example.net", "sip:alice@192.0.2.1");
    let headers = &mut bye.headers;
    headers.set(HeaderName::To, "<sip:alice@example.org>;tag=far");
    let call_id = invite.headers.raw(&HeaderName::CallId).next().unwrap();
    headers.set(HeaderName::CallId, call_id);
    headers.push(HeaderName::Route, route.unwrap());
    let config = stage.directory.config.clone();
    // The seed is kept, and the new clock may show the same time as before.
    stage.directory = Directory::new(
        config,
        (Box::new(Everybody), Box::new(Everywhere)),
        &[1; 32],
        &[9; 32],
    );
    let again = answer(&stage.send("192.0.2.1:5060", proven));
    assert_eq!(again.status, StatusCode::UNAUTHORIZED);
    let (to, onward) = sent(&stage.send(CALLER, bye));
    assert_eq!((to, onward.method), (at("192.0.2.1:5060"), Method::Bye));
}

#[test]
fn strangers_who_ask_too_often_are_not_answered_and_leave_nothing() {
    let mut stage = Stage::new();
    let mut answered = 0;
    for number in 0..200 {
        let method = [
            Method::Invite,
            Method::Options,
            Method::Subscribe,
            Method::Bye,
            Method::Ack,
            Method::Cancel,
        ];
        let method = method[number % 6].clone();
        let request = stage.request(method, "sip:eve@example.net", "sip:nobody@example.org");
        answered += stage.send(CALLER, request).len();
    }
    // 40 are admitted, of which six are ACKs.
    assert_eq!(answered, 34);
    assert_eq!(stage.directory.counts().over_limit, 160);
    assert!(stage.holds_nothing());
    assert_eq!(stage.directory.flows.stream_count(), 0);
}

#[test]
fn messages_over_the_limit_are_not_even_parsed() {
    let mut stage = Stage::new();
    let nonsense = Bytes::from_static(b"nonsense");
    let stray = Bytes::from_static(b"SIP/2.0 200 OK\r\n\r\n");
    for number in 0..400 {
        let bytes = [&nonsense, &stray][number % 2];
        stage
            .directory
            .handle_datagram(stage.now, 0, at(CALLER), bytes);
    }
    let counts = stage.directory.counts();
    assert_eq!((counts.malformed, counts.over_limit), (20, 360));
    assert!(stage.outputs().is_empty() && stage.holds_nothing());
}

#[test]
fn a_called_user_may_answer_more_often_than_others_ask() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let (to, forwarded) = sent(&stage.send(CALLER, invite));
    let ringing = respond(&forwarded, StatusCode::RINGING);
    let mut rings = || stage.send(&to.to_string(), ringing.clone()).len();
    // The caller hears it once, however many responses the called user may send.
    let passed: usize = (0..1200).map(|_| rings()).sum();
    assert_eq!(passed, 1);
    assert_eq!(stage.directory.counts().over_limit, 200);
}

#[test]
fn answers_over_a_stream_are_counted_like_those_in_datagrams() {
    let mut stage = Stage::new();
    let (now, alice) = (stage.now, "192.0.2.1:50000");
    let open = stage
        .directory
        .handle_connection(now, Transport::Tcp, at(alice));
    let flow = open.unwrap();
    let request = stage.proven(alice, &["<sip:alice@10.0.0.7;transport=tcp>"]);
    stage.directory.handle_bytes(now, flow, &request.to_bytes());
    stage.outputs();
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let outputs = stage.send(CALLER, invite);
    let Message::Request(forwarded) = message(&outputs[0]) else {
        panic!("{outputs:?}");
    };
    let ringing = respond(&forwarded, StatusCode::RINGING).to_bytes();
    let passed = (0..1199).map(|_| {
        stage.directory.handle_bytes(now, flow, &ringing);
        stage.outputs().len()
    });
    assert_eq!(passed.sum::<usize>(), 1);
    assert_eq!(stage.directory.counts().over_limit, 199);
    // The 200th message over the limit closes the stream.
    stage.directory.handle_bytes(now, flow, &ringing);
    assert!(stage.outputs().contains(&Output::Close { flow }));
}

#[test]
fn answers_of_who_was_asked_nothing_count_as_requests() {
    let mut stage = Stage::new();
    let (now, source) = (stage.now, at("203.0.113.9:40000"));
    let open = stage
        .directory
        .handle_connection(now, Transport::Tcp, source);
    let flow = open.unwrap();
    let asked = stage.request(Method::Options, "sip:eve@example.net", "sip:example.org");
    let stray = respond(&asked, StatusCode::OK).to_bytes();
    for _ in 0..100 {
        stage.directory.handle_bytes(now, flow, &stray);
    }
    // The connection is one of the 40 admissions.
    assert_eq!(stage.directory.counts().over_limit, 100 - 39);
}

#[test]
fn forged_addresses_keep_neither_streams_nor_users_out() {
    let mut stage = Stage::with(|config| config.admission.max_senders = 100);
    let alice = "192.0.2.1:5060";
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let request = stage.request(Method::Options, "sip:eve@example.net", "sip:example.org");
    for number in 0..1000_u32 {
        let forged = SocketAddr::from(((0x0a00_0000 + number).to_be_bytes(), 5060));
        stage.send(&forged.to_string(), request.clone());
    }
    // Requests from new senders over datagrams are refused.
    assert_eq!(stage.send("203.0.113.9:5060", request.clone()), []);
    // A registered user and a connected client are still served.
    assert_eq!(stage.send(alice, request.clone()).len(), 1);
    let (now, source) = (stage.now, at("203.0.113.9:40000"));
    let flow = stage
        .directory
        .handle_connection(now, Transport::Tcp, source)
        .expect("streams have places of their own");
    stage.directory.handle_bytes(now, flow, &request.to_bytes());
    assert_eq!(answer(&stage.outputs()).status, StatusCode::OK);
}

#[test]
fn calls_from_forged_addresses_keep_neither_registrations_nor_users_calls_out() {
    let mut stage = Stage::with(|config| {
        config.max_forwarded = 64;
        config.max_requests = 100;
    });
    stage.register(&["<sip:alice@192.0.2.1>"]);
    stage.outputs();
    for number in 0..1000_u32 {
        let forged = SocketAddr::from(((0x0a00_0000 + number).to_be_bytes(), 5060));
        let invite = stage.request(Method::Invite, "sip:eve@example.net", ALICE);
        stage.send(&forged.to_string(), invite);
    }
    assert_eq!(stage.directory.forwarding.len(), 32, "half of all");
    assert!(stage.directory.flows.datagram_count() < 40);
    let (_, requests) = stage.directory.transactions.counts();
    assert!(requests < 40, "{requests}");
    // A registered user and a connected client can still call.
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, ALICE, ALICE);
    assert_eq!(
        sent(&stage.send("192.0.2.1:5060", invite)).1.method,
        Method::Invite
    );
    let (now, source) = (stage.now, at("203.0.113.9:40000"));
    let open = stage
        .directory
        .handle_connection(now, Transport::Tcp, source);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let flow = open.unwrap();
    stage.directory.handle_bytes(now, flow, &invite.to_bytes());
    assert_eq!(sent(&stage.outputs()).1.method, Method::Invite);
    // The refusal's ACK is not for alice.
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let refused = answer(&stage.send(CALLER, invite.clone()));
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let mut ack = invite.to_cancel();
    ack.method = Method::Ack;
    ack.headers.set(HeaderName::CSeq, "1 ACK");
    let to = refused.headers.raw(&HeaderName::To).next().unwrap();
    ack.headers.set(HeaderName::To, to);
    assert_eq!(stage.send(CALLER, ack), []);
}

#[test]
fn a_stream_that_asks_too_often_for_long_is_closed() {
    let mut stage = Stage::new();
    let (now, source) = (stage.now, at("203.0.113.9:40000"));
    let open = stage
        .directory
        .handle_connection(now, Transport::Tcp, source);
    let flow = open.unwrap();
    for _ in 0..300 {
        let request = stage.request(Method::Options, "sip:eve@example.net", "sip:example.org");
        stage.directory.handle_bytes(now, flow, &request.to_bytes());
    }
    let outputs = stage.outputs();
    assert_eq!(outputs.last(), Some(&Output::Close { flow }));
    // The connection is one of the 40 admissions.
    assert_eq!(outputs.len(), 39 + 200 + 1);
}

#[test]
fn a_call_goes_to_the_preferred_contact_and_to_the_next_one_when_that_refuses() {
    let mut stage = Stage::new();
    stage.register(&[
        "<sip:alice@192.0.2.1>;q=0.3",
        "<sip:alice@192.0.2.2:5070>;q=0.7",
    ]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let (to, first) = sent(&stage.send(CALLER, invite.clone()));
    assert_eq!(to, at("192.0.2.2:5070"));
    assert_eq!(first.uri.to_string(), "sip:alice@192.0.2.2:5070");
    assert!(first.headers.contains(&HeaderName::RecordRoute));
    let outputs = stage.send("192.0.2.2:5070", respond(&first, StatusCode::BUSY_HERE));
    let [ack, second] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    let (_, ack) = sent(std::slice::from_ref(ack));
    assert_eq!(ack.method, Method::Ack);
    let (to, second) = sent(std::slice::from_ref(second));
    assert_eq!(to, at("192.0.2.1:5060"));
    let outputs = stage.send("192.0.2.1:5060", respond(&second, StatusCode::OK));
    let answer = answer(&outputs);
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers.vias().unwrap().len(), 1);
    let [Output::Datagram { to, .. }] = &outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(*to, at(CALLER));
}

#[test]
fn an_ack_and_a_bye_follow_the_way_of_the_call() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let call_id = invite.headers.raw(&HeaderName::CallId).next();
    let call_id = call_id.unwrap().to_owned();
    let (_, forwarded) = sent(&stage.send(CALLER, invite));
    let mut accepted = respond(&forwarded, StatusCode::OK);
    let recorded = forwarded.headers.raw(&HeaderName::RecordRoute).next();
    accepted
        .headers
        .push(HeaderName::RecordRoute, recorded.unwrap());
    accepted
        .headers
        .push(HeaderName::Contact, "<sip:alice@192.0.2.1>");
    let accepted = answer(&stage.send("192.0.2.1:5060", accepted));
    let route = accepted.headers.raw(&HeaderName::RecordRoute).next();
    let route = route.unwrap().to_owned();
    for method in [Method::Ack, Method::Bye] {
        let mut next = stage.request(method.clone(), "sip:bob@example.net", "sip:alice@192.0.2.1");
        next.headers
            .set(HeaderName::To, "<sip:alice@example.org>;tag=far");
        next.headers.set(HeaderName::CallId, &call_id);
        next.headers.push(HeaderName::Route, &route);
        let (to, onward) = sent(&stage.send(CALLER, next.clone()));
        assert_eq!((to, onward.method), (at("192.0.2.1:5060"), method.clone()));
        // A caller can't have requests sent anywhere but to the called user.
        let mut elsewhere = stage.request(method.clone(), "sip:bob@example.net", "sip:x@10.0.0.5");
        elsewhere.headers = next.headers.clone();
        elsewhere.headers.set(
            HeaderName::Via,
            "SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKelsewhere",
        );
        let outputs = stage.send(CALLER, elsewhere);
        match method {
            Method::Ack => assert_eq!(outputs, []),
            _ => assert_eq!(answer(&outputs).status, StatusCode::FORBIDDEN),
        }
        // Without a recorded route the directory is no relay.
        next.headers.remove(&HeaderName::Route);
        next.headers.set(HeaderName::CallId, "other");
        next.headers.set(
            HeaderName::Via,
            "SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKother",
        );
        let outputs = stage.send(CALLER, next);
        match method {
            Method::Ack => assert_eq!(outputs, []),
            _ => assert_eq!(answer(&outputs).status, StatusCode::FORBIDDEN),
        }
    }
}

#[test]
fn a_silent_contact_does_not_keep_the_next_one_waiting_and_is_cancelled() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>;q=0.9", "<sip:alice@192.0.2.2>;q=0.1"]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let (_, silent) = sent(&stage.send(CALLER, invite));
    stage.pass(Duration::from_secs(2));
    let outputs = stage.outputs();
    let second = outputs.iter().find(
        |output| matches!(output, Output::Datagram { to, .. } if *to == at("192.0.2.2:5060")),
    );
    let (_, second) = sent(std::slice::from_ref(second.unwrap()));
    assert_eq!(
        answer(&stage.send("192.0.2.2:5060", respond(&second, StatusCode::OK))).status,
        StatusCode::OK
    );
    // It rings only now: the call is already answered elsewhere.
    let (to, cancel) = sent(&stage.send("192.0.2.1:5060", respond(&silent, StatusCode::RINGING)));
    assert_eq!((to, cancel.method), (at("192.0.2.1:5060"), Method::Cancel));
    stage.pass(Duration::from_secs(300));
    assert_eq!(stage.directory.transactions.counts(), (0, 0));
    assert_eq!(stage.directory.forwarding.len(), 0);
}

#[test]
fn a_caller_who_gives_up_is_answered_when_the_contact_is() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let (_, forwarded) = sent(&stage.send(CALLER, invite.clone()));
    let ringing = respond(&forwarded, StatusCode::RINGING);
    let ringing = answer(&stage.send("192.0.2.1:5060", ringing));
    assert_eq!(ringing.status, StatusCode::RINGING);
    let outputs = stage.send(CALLER, invite.to_cancel());
    assert_eq!(outputs.len(), 2, "{outputs:?}");
    let is_cancel = |output: &Output| match message(output) {
        Message::Request(request) => request.method == Method::Cancel,
        Message::Response(_) => false,
    };
    assert_eq!(outputs.iter().filter(|output| is_cancel(output)).count(), 1);
    let outputs = stage.send(
        "192.0.2.1:5060",
        respond(&forwarded, StatusCode::REQUEST_TERMINATED),
    );
    let to_caller = outputs
        .iter()
        .map(message)
        .find_map(|message| match message {
            Message::Response(response) => Some(response.status),
            Message::Request(_) => None,
        });
    assert_eq!(to_caller, Some(StatusCode::REQUEST_TERMINATED));
    stage.pass(Duration::from_secs(300));
    assert_eq!(stage.directory.transactions.counts(), (0, 0));
}

#[test]
fn contacts_without_an_address_or_at_one_that_the_owner_excludes_are_not_reached() {
    for contact in [
        "sip:a@127.0.0.1",
        "sip:a@127.0.0.1:25;transport=tcp",
        "sip:a@[::ffff:127.0.0.1]",
        "sip:a@host.example",
        "sip:a@192.0.2.1:0",
        "sip:a@192.0.2.1;transport=sctp",
        "sips:a@192.0.2.1",
    ] {
        let mut stage = Stage::new();
        stage.register(&[&format!("<{contact}>")]);
        let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
        let answer = answer(&stage.send(CALLER, invite));
        let expected = StatusCode::TEMPORARILY_UNAVAILABLE;
        assert_eq!(answer.status, expected, "{contact}");
    }
}

#[test]
fn a_user_that_registers_over_a_stream_is_reached_over_it() {
    let mut stage = Stage::new();
    let alice = at("192.0.2.1:50000");
    let (now, tls) = (stage.now, Transport::Tls);
    let flow = stage.directory.handle_connection(now, tls, alice).unwrap();
    let request = stage.proven("192.0.2.1:50000", &["<sip:alice@10.0.0.7;transport=tls>"]);
    stage.directory.handle_bytes(now, flow, &request.to_bytes());
    assert_eq!(answer(&stage.outputs()).status, StatusCode::OK);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let outputs = stage.send(CALLER, invite.clone());
    assert!(matches!(outputs[..], [Output::Stream { flow: to, .. }] if to == flow));
    stage.directory.handle_closed(now, flow);
    // With the stream, all other routes to the host are gone.
    assert_eq!(answer(&stage.outputs()).status, StatusCode::REQUEST_TIMEOUT);
    let mut again = invite;
    again.headers.set(HeaderName::CallId, "again");
    again.headers.set(
        HeaderName::Via,
        "SIP/2.0/UDP 192.0.2.99;branch=z9hG4bKagain",
    );
    assert_eq!(
        answer(&stage.send(CALLER, again)).status,
        StatusCode::TEMPORARILY_UNAVAILABLE
    );
}

#[test]
fn a_call_to_who_registered_over_a_stream_is_ended_over_it() {
    let mut stage = Stage::new();
    let (now, alice) = (stage.now, "192.0.2.1:50000");
    let open = stage
        .directory
        .handle_connection(now, Transport::Tcp, at(alice));
    let flow = open.unwrap();
    let contact = "<sip:alice@10.0.0.7:5060;transport=tcp>";
    let request = stage.proven(alice, &[contact]);
    stage.directory.handle_bytes(now, flow, &request.to_bytes());
    stage.outputs();
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    let call_id = invite.headers.raw(&HeaderName::CallId).next();
    let call_id = call_id.unwrap().to_owned();
    let outputs = stage.send(CALLER, invite);
    let Message::Request(forwarded) = message(&outputs[0]) else {
        panic!("{outputs:?}");
    };
    let mut accepted = respond(&forwarded, StatusCode::OK);
    let recorded = forwarded.headers.raw(&HeaderName::RecordRoute).next();
    let headers = &mut accepted.headers;
    headers.push(HeaderName::RecordRoute, recorded.unwrap());
    headers.push(HeaderName::Contact, contact);
    stage
        .directory
        .handle_bytes(now, flow, &accepted.to_bytes());
    let accepted = answer(&stage.outputs());
    let route = accepted.headers.raw(&HeaderName::RecordRoute).next();
    let target = "sip:alice@10.0.0.7:5060;transport=tcp";
    let mut bye = stage.request(Method::Bye, "sip:bob@example.net", target);
    let headers = &mut bye.headers;
    headers.set(HeaderName::To, "<sip:alice@example.org>;tag=far");
    headers.set(HeaderName::CallId, call_id);
    headers.push(HeaderName::Route, route.unwrap());
    let outputs = stage.send(CALLER, bye);
    assert!(matches!(outputs[..], [Output::Stream { flow: to, .. }] if to == flow));
}

#[test]
fn streams_are_bounded_and_those_that_say_nothing_or_nonsense_are_closed() {
    let mut stage = Stage::with(|config| config.max_streams = 16);
    let now = stage.now;
    let directory = &mut stage.directory;
    let mut open = |host: u8| {
        let source = SocketAddr::from(([192, 0, 2, host], 40000));
        directory.handle_connection(now, Transport::Tcp, source)
    };
    let own: Vec<_> = (0..4).filter_map(|_| open(1)).collect();
    assert_eq!(own.len(), 2, "an eighth of all");
    let others = (2..40).filter_map(&mut open).count();
    assert_eq!(others, 14);
    assert_eq!(directory.counts().streams_refused, 2 + 24);
    directory.handle_bytes(now, own[0], b"nonsense\r\n\r\n");
    let outputs = stage.outputs();
    assert_eq!(outputs, [Output::Close { flow: own[0] }]);
    stage.directory.handle_bytes(now, own[1], b"\r\n\r\n");
    let pong = Output::Stream {
        flow: own[1],
        bytes: Bytes::from_static(b"\r\n"),
    };
    assert_eq!(stage.outputs(), [pong]);
    stage.pass(Duration::from_secs(20));
    assert_eq!(stage.outputs().len(), 14);
    assert_eq!(stage.directory.stream_count(), 1);
    stage.pass(Duration::from_secs(600));
    assert_eq!(stage.directory.stream_count(), 0);
}

#[test]
fn addresses_of_one_network_have_one_share_of_streams_and_calls() {
    let mut stage = Stage::with(|config| {
        config.max_streams = 16;
        config.max_forwarded = 16;
    });
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let source = |number: usize| format!("[2001:db8::{number}]:40000");
    let now = stage.now;
    let open = |number: &usize| {
        let from = at(&source(*number));
        let flow = stage.directory.handle_connection(now, Transport::Tcp, from);
        flow.is_some()
    };
    assert_eq!((1..=5).filter(open).count(), 2, "an eighth of all");
    for number in 1..=5 {
        let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
        stage.send(&source(number), invite);
    }
    assert_eq!(stage.directory.forwarding.len(), 2, "an eighth of all");
}

#[test]
fn a_request_to_many_contacts_counts_for_each() {
    let mut stage = Stage::with(|config| config.max_forwarded = 32);
    let contacts = [
        "<sip:alice@192.0.2.1>",
        "<sip:alice@192.0.2.2>",
        "<sip:alice@192.0.2.3>",
    ];
    stage.register(&contacts);
    for _ in 0..5 {
        let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
        stage.send("203.0.113.9:40000", invite);
    }
    assert_eq!(
        stage.directory.forwarding.len(),
        2,
        "an eighth of all is four"
    );
}

#[test]
fn an_address_that_may_be_forged_gets_one_answer_for_each_request() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:eve@example.net", ALICE);
    let (_, forwarded) = sent(&stage.send(CALLER, invite.clone()));
    let to_caller = |outputs: &[Output]| {
        let of = |it: &&Output| matches!(it, Output::Datagram { to, .. } if *to == at(CALLER));
        outputs.iter().filter(of).count()
    };
    // Alice rings more than once, and refuses.
    let mut got = 0;
    for status in [StatusCode::RINGING, StatusCode::RINGING] {
        got += to_caller(&stage.send("192.0.2.1:5060", respond(&forwarded, status)));
    }
    assert_eq!(got, 1);
    let busy = respond(&forwarded, StatusCode::BUSY_HERE);
    assert_eq!(to_caller(&stage.send("192.0.2.1:5060", busy)), 1);
    stage.pass(Duration::from_secs(40));
    assert_eq!(to_caller(&stage.outputs()), 0);
    // A repeated request gets the response again.
    let again = stage.request(Method::Invite, "sip:eve@example.net", ALICE);
    let (_, forwarded) = sent(&stage.send(CALLER, again.clone()));
    let busy = respond(&forwarded, StatusCode::BUSY_HERE);
    assert_eq!(to_caller(&stage.send("192.0.2.1:5060", busy)), 1);
    assert_eq!(to_caller(&stage.send(CALLER, again)), 1);
    stage.pass(Duration::from_secs(40));
    assert_eq!(to_caller(&stage.outputs()), 0);
}

#[test]
fn an_acceptance_is_repeated_to_a_forgeable_address_only_where_it_asks_again() {
    let mut stage = Stage::new();
    stage.register(&["<sip:alice@192.0.2.1>"]);
    let invite = stage.request(Method::Invite, "sip:eve@example.net", ALICE);
    let (_, forwarded) = sent(&stage.send(CALLER, invite.clone()));
    let accepted = respond(&forwarded, StatusCode::OK);
    let mut got = 0;
    for _ in 0..7 {
        got += stage.send("192.0.2.1:5060", accepted.clone()).len();
        stage.pass(Duration::from_secs(4));
        got += stage.outputs().len();
    }
    assert_eq!(got, 1);
    assert_eq!(stage.send(CALLER, invite).len(), 1);
}

/// Reaches hosts in 10.0.0.0/8 only at the address that they registered from.
struct Wary;

impl Reach for Wary {
    fn may_reach(&self, address: IpAddr, is_origin: bool) -> bool {
        is_origin || !matches!(address, IpAddr::V4(it) if it.octets()[0] == 10)
    }
}

#[test]
fn a_contact_leads_into_a_network_only_to_where_its_user_was_heard_from() {
    let mut stage = Stage::new();
    stage.directory.reach = Box::new(Wary);
    let theirs = "<sip:alice@10.50.0.6:6379;transport=tcp>;q=0.9";
    let own = "<sip:alice@10.50.0.5>;q=0.5";
    let request = stage.proven("10.50.0.5:5060", &[theirs, own]);
    let accepted = answer(&stage.send("10.50.0.5:5060", request));
    assert_eq!(accepted.status, StatusCode::OK);
    let invite = stage.request(Method::Invite, "sip:bob@example.net", ALICE);
    // No connection is opened, and the next contact is tried at once.
    let (to, _) = sent(&stage.send(CALLER, invite));
    assert_eq!(to, at("10.50.0.5:5060"));
    assert_eq!(stage.directory.stream_count(), 0);
}

#[test]
fn a_watcher_is_notified_only_at_the_address_it_subscribed_from() {
    for (contact, is_told) in [("10.50.0.5:5080", true), ("10.50.0.6:6379", false)] {
        let mut stage = Stage::new();
        stage.directory.reach = Box::new(Wary);
        let mut subscribe = stage.request(Method::Subscribe, ALICE, ALICE);
        let headers = &mut subscribe.headers;
        headers.push(HeaderName::Event, "reg");
        headers.push(HeaderName::Contact, format!("<sip:alice@{contact}>"));
        let asked = answer(&stage.send("10.50.0.5:5060", subscribe.clone()));
        let challenges = asked.headers.raw(&HeaderName::WwwAuthenticate);
        let challenges: Vec<_> = challenges.map(|it| Challenge::parse(it).unwrap()).collect();
        let mut answerer = Answerer::new("alice", "p", Algorithm::Sha256);
        answerer.handle_challenges(&challenges).unwrap();
        let proof = answerer.credentials(&Method::Subscribe, ALICE, "c");
        let headers = &mut subscribe.headers;
        headers.set(HeaderName::Authorization, proof.unwrap());
        let accepted = answer(&stage.send("10.50.0.5:5060", subscribe));
        assert_eq!(accepted.status, StatusCode::OK);
        stage.directory.handle_timeout(stage.now);
        let outputs = stage.outputs();
        assert_eq!(
            outputs.len(),
            usize::from(is_told),
            "{contact}: {outputs:?}"
        );
    }
}
