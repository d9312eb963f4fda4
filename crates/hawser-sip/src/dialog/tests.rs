use super::*;
use crate::message::Headers;

fn via() -> Via {
    crate::fields::Field::parse("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK9").unwrap()
}

fn invite() -> Request {
    let mut invite = Request::new(Method::Invite, "sip:bob@example.org".parse().unwrap());
    for (name, value) in [
        (HeaderName::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1"),
        (
            HeaderName::RecordRoute,
            "<sip:p2.example;lr>, <sip:p1.example;lr>",
        ),
        (HeaderName::From, "<sip:alice@example.org>;tag=a"),
        (HeaderName::To, "<sip:bob@example.org>"),
        (HeaderName::CallId, "1@a"),
        (HeaderName::CSeq, "7 INVITE"),
        (HeaderName::Contact, "<sip:alice@192.0.2.1>"),
    ] {
        invite.headers.push(name, value);
    }
    invite
}

fn accepted(invite: &Request) -> Response {
    let mut response = Response::new(invite, StatusCode::OK, Some("b"));
    for value in invite.headers.raw(&HeaderName::RecordRoute) {
        response.headers.push(HeaderName::RecordRoute, value);
    }
    response
        .headers
        .push(HeaderName::Contact, "<sip:bob@192.0.2.2>");
    response
}

fn routes(headers: &Headers) -> Vec<String> {
    let routes = headers.routes(HeaderName::Route).unwrap();
    routes.iter().map(|route| route.uri.to_string()).collect()
}

#[test]
fn both_ends_have_the_same_dialog_and_opposite_ways() {
    let invite = invite();
    let mut alice = Dialog::of_client(&invite, &accepted(&invite)).unwrap();
    let mut bob = Dialog::of_server(&invite, "b").unwrap();
    let update = alice.request(Method::Update, &via());
    assert_eq!(update.uri.to_string(), "sip:bob@192.0.2.2");
    assert_eq!(
        routes(&update.headers),
        ["sip:p1.example;lr", "sip:p2.example;lr"]
    );
    assert_eq!(alice.next_hop().to_string(), "sip:p1.example;lr");
    assert!(bob.is_of(&update.essentials().unwrap()));
    assert!(!alice.is_of(&update.essentials().unwrap()));
    bob.handle_request(&update).unwrap();
    let bye = bob.request(Method::Bye, &via());
    assert_eq!(bye.uri.to_string(), "sip:alice@192.0.2.1");
    assert_eq!(
        routes(&bye.headers),
        ["sip:p2.example;lr", "sip:p1.example;lr"]
    );
    assert!(alice.is_of(&bye.essentials().unwrap()));
    alice.handle_request(&bye).unwrap();
    let ack = alice.ack(7, &via()).essentials().unwrap();
    assert_eq!((ack.cseq.number, ack.cseq.method), (7, Method::Ack));
}

#[test]
fn a_request_that_is_older_than_another_one_is_refused() {
    let invite = invite();
    let mut alice = Dialog::of_client(&invite, &accepted(&invite)).unwrap();
    let mut bob = Dialog::of_server(&invite, "b").unwrap();
    let first = alice.request(Method::Update, &via());
    let second = alice.request(Method::Update, &via());
    bob.handle_request(&second).unwrap();
    for late in [&first, &second] {
        let fault = bob.handle_request(late).unwrap_err();
        assert!(matches!(fault, DialogFault::Order { last: 9, .. }));
        assert_eq!(fault.status(), StatusCode::INTERNAL_ERROR);
    }
    bob.handle_request(&alice.ack(7, &via())).unwrap();
}

#[test]
fn a_host_that_moves_says_where_it_is_now() {
    let invite = invite();
    let mut alice = Dialog::of_client(&invite, &accepted(&invite)).unwrap();
    let mut bob = Dialog::of_server(&invite, "b").unwrap();
    let mut update = alice.request(Method::Update, &via());
    update
        .headers
        .push(HeaderName::Contact, "<sip:alice@198.51.100.9>");
    bob.handle_request(&update).unwrap();
    let target = bob.request(Method::Bye, &via()).uri;
    assert_eq!(target.to_string(), "sip:alice@198.51.100.9");
    let mut moved = Response::new(&update, StatusCode::OK, None);
    moved
        .headers
        .push(HeaderName::Contact, "<sip:bob@198.51.100.8>");
    alice.handle_success(&Method::Update, &moved).unwrap();
    let target = alice.request(Method::Bye, &via()).uri;
    assert_eq!(target.to_string(), "sip:bob@198.51.100.8");
}

#[test]
fn a_proxy_from_before_loose_routing_gets_its_own_uri() {
    let mut invite = invite();
    invite.headers.set(
        HeaderName::RecordRoute,
        "<sip:p2.example>, <sip:p1.example>",
    );
    let mut alice = Dialog::of_client(&invite, &accepted(&invite)).unwrap();
    let bye = alice.request(Method::Bye, &via());
    assert_eq!(bye.uri.to_string(), "sip:p1.example");
    assert_eq!(
        routes(&bye.headers),
        ["sip:p2.example", "sip:bob@192.0.2.2"]
    );
}

#[test]
fn what_lacks_a_tag_or_a_contact_makes_no_dialog() {
    let invite = invite();
    let mut answer = accepted(&invite);
    answer
        .headers
        .set(HeaderName::Contact, "<sip:a@b>, <sip:c@d>");
    assert_eq!(
        Dialog::of_client(&invite, &answer),
        Err(DialogFault::Contacts(2))
    );
    answer.headers.remove(&HeaderName::Contact);
    assert_eq!(
        Dialog::of_client(&invite, &answer),
        Err(DialogFault::Contacts(0))
    );
    let mut answer = accepted(&invite);
    answer.headers.set(HeaderName::To, "<sip:bob@example.org>");
    assert_eq!(
        Dialog::of_client(&invite, &answer),
        Err(DialogFault::Tag(HeaderName::To))
    );
    let mut invite = invite;
    invite.headers.set(HeaderName::Contact, "*");
    assert_eq!(
        Dialog::of_server(&invite, "b"),
        Err(DialogFault::Contacts(0))
    );
}
