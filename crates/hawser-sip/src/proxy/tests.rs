use std::time::Duration;

use super::*;
use crate::fields::{CallId, Field as _, NameAddr, Q};
use crate::registrar::{Binding, Location, LocationLimits, Origin};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const BOB: &str = "sip:bob@example.org";

fn sip(text: &str) -> SipUri {
    let uri: Uri = text.parse().unwrap();
    uri.as_sip().unwrap().clone()
}

fn proxy() -> Proxy {
    let domains = vec!["example.org".parse().unwrap()];
    Proxy::new(sip("sip:proxy.example:5060"), domains, &[3; 32])
}

fn location(contacts: &[(&str, u16, &str)]) -> Location {
    let bindings = contacts.iter().map(|(uri, thousandths, path)| {
        let mut hops = Vec::new();
        if !path.is_empty() {
            NameAddr::parse_list(path, &mut hops).unwrap();
        }
        Binding {
            contact: NameAddr::new(uri.parse().unwrap()),
            q: Q::from_thousandths(*thousandths).unwrap(),
            expires: NOW + Duration::from_secs(60),
            updated: NOW,
            call_id: CallId::new("1").unwrap(),
            cseq: 1,
            path: hops,
            outbound: None,
            origin: Origin::default(),
        }
    });
    let mut location = Location::new(LocationLimits::default());
    location.set(NOW, BOB, bindings.collect()).unwrap();
    location
}

fn request(method: Method, uri: &str) -> Request {
    let mut request = Request::new(method.clone(), uri.parse().unwrap());
    for (name, value) in [
        (HeaderName::Via, "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1"),
        (HeaderName::MaxForwards, "70"),
        (HeaderName::From, "<sip:alice@example.net>;tag=a"),
        (HeaderName::To, "<sip:bob@example.org>"),
        (HeaderName::CallId, "1@a"),
    ] {
        request.headers.push(name, value);
    }
    request
        .headers
        .push(HeaderName::CSeq, format!("1 {method}"));
    request
}

/// Returns the outgoing request.
fn sent(forward: &Forward) -> Request {
    let via = Via::parse("SIP/2.0/UDP proxy.example").unwrap();
    forward.to_request(via, "u1")
}

fn forwards(decision: Decision) -> Vec<Forward> {
    match decision {
        Decision::Forward(forwards) => forwards,
        other => panic!("{other:?}"),
    }
}

fn status(decision: Decision) -> u16 {
    match decision {
        Decision::Refuse(refusal) => refusal.status.as_u16(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_goes_to_each_contact_the_preferred_one_first() {
    let location = location(&[
        ("sip:bob@192.0.2.2", 200, ""),
        ("sip:bob@192.0.2.3", 800, "<sip:edge.example;lr>"),
    ]);
    let asked = request(Method::Invite, BOB);
    let forwards = forwards(proxy().handle_request(NOW, &asked, &location));
    let ways: Vec<_> = forwards
        .iter()
        .map(|f| (sent(f).uri.to_string(), f.next_hop.to_string()))
        .collect();
    let way = |uri: &str, hop: &str| (uri.to_owned(), hop.to_owned());
    assert_eq!(
        ways,
        [
            way("sip:bob@192.0.2.3", "sip:edge.example;lr"),
            way("sip:bob@192.0.2.2", "sip:bob@192.0.2.2"),
        ]
    );
    let headers = sent(&forwards[0]).headers;
    assert_eq!(headers.max_forwards().unwrap(), Some(MaxForwards(69)));
    let routes: Vec<_> = headers.raw(&HeaderName::Route).collect();
    assert_eq!(routes, ["<sip:edge.example;lr>"]);
    let recorded = headers.routes(HeaderName::RecordRoute).unwrap();
    assert_eq!(recorded, [proxy().record(&asked, BOB)]);
    let recorded = recorded[0].uri.to_string();
    assert!(
        recorded.starts_with("sip:proxy.example:5060;lr;a="),
        "{recorded}"
    );
}

/// Returns the called user's recorded route, as a Route.
fn called_way(proxy: &Proxy, request: &Request) -> String {
    proxy.record(request, BOB).to_string()
}

/// Returns the caller's route from the response to its INVITE, which has `contact`; `above`
/// precedes this proxy in Record-Route.
fn caller_way(proxy: &Proxy, contact: &str, above: &str) -> String {
    let location = location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let invite = request(Method::Invite, BOB);
    let forward = forwards(proxy.handle_request(NOW, &invite, &location)).remove(0);
    let mut answer = Response::new(&sent(&forward), StatusCode::OK, Some("b"));
    answer
        .headers
        .push(HeaderName::Contact, format!("<{contact}>"));
    let own = called_way(proxy, &invite);
    answer
        .headers
        .push(HeaderName::RecordRoute, format!("{above}{own}"));
    let (answer, _) = proxy.handle_response(&answer, |_| true).unwrap();
    let routes = answer.headers.routes(HeaderName::RecordRoute).unwrap();
    assert!(!routes.iter().any(|route| route.to_string() == own));
    routes.last().unwrap().to_string()
}

fn bye(target: &str, route: &str) -> Request {
    let mut bye = request(Method::Bye, target);
    bye.headers
        .set(HeaderName::To, "<sip:bob@example.org>;tag=b");
    bye.headers.push(HeaderName::Route, route);
    bye
}

#[test]
fn a_request_within_a_dialog_follows_its_way_and_no_other_leaves_the_domain() {
    let (proxy, location) = (proxy(), location(&[]));
    let mut bye = request(Method::Bye, "sip:bob@192.0.2.2");
    assert_eq!(status(proxy.handle_request(NOW, &bye, &location)), 403);
    let own = called_way(&proxy, &bye);
    bye.headers
        .push(HeaderName::Route, format!("{own}, <sip:p2.example;lr>"));
    assert_eq!(status(proxy.handle_request(NOW, &bye, &location)), 403);
    bye.headers
        .set(HeaderName::To, "<sip:bob@example.org>;tag=b");
    let onward = forwards(proxy.handle_request(NOW, &bye, &location));
    assert_eq!(onward[0].next_hop.to_string(), "sip:p2.example;lr");
    assert_eq!(sent(&onward[0]).uri.to_string(), "sip:bob@192.0.2.2");
    // Strict routing: this proxy is the request's URI, and its target the last route.
    let old = self::bye(own.trim_matches(['<', '>']), "<sip:bob@192.0.2.2>");
    let onward = forwards(proxy.handle_request(NOW, &old, &location));
    assert_eq!(onward[0].next_hop.to_string(), "sip:bob@192.0.2.2");
}

#[test]
fn the_callers_way_leads_to_who_was_called_and_nowhere_else() {
    let proxy = proxy();
    let empty = location(&[]);
    let route = caller_way(&proxy, "sip:bob@192.0.2.2:5070", "");
    let to = |target: &str, route: &str, location: &Location| {
        proxy.handle_request(NOW, &bye(target, route), location)
    };
    let onward = forwards(to("sip:bob@192.0.2.2:5070;x=1", &route, &empty));
    assert_eq!(onward[0].next_hop.to_string(), "sip:bob@192.0.2.2:5070;x=1");
    for elsewhere in [
        "sip:bob@192.0.2.2",
        "sip:bob@192.0.2.2:5070;transport=tcp",
        "sip:bob@192.0.2.3:5070",
        "sip:x@10.0.0.5:25;transport=tcp",
        "sips:bob@192.0.2.2:5070",
    ] {
        assert_eq!(status(to(elsewhere, &route, &empty)), 403, "{elsewhere}");
    }
    let by_others = format!("{route}, <sip:10.0.0.5:25;transport=tcp;lr>");
    assert_eq!(
        status(to("sip:bob@192.0.2.2:5070", &by_others, &empty)),
        403
    );
    // Bob has moved, and registered his new address.
    let moved = location(&[("sip:bob@198.51.100.7:5080;transport=tcp", 1000, "")]);
    forwards(to(
        "sip:bob@198.51.100.7:5080;transport=TCP",
        &route,
        &moved,
    ));
    // Any change by the caller invalidates the route.
    for (own, changed) in [(";a=", ";a=x"), (";h=", ";x="), (";d=", ";d=0")] {
        let forged = route.replacen(own, changed, 1);
        assert_eq!(status(to("sip:bob@192.0.2.2:5070", &forged, &empty)), 403);
    }
}

#[test]
fn a_contact_that_is_not_registered_is_where_its_user_was_heard_from() {
    let proxy = proxy();
    let mut telephones = location(&[("sip:bob@10.0.0.2:5070;transport=tcp", 1000, "")]);
    let mut bindings = telephones.lookup(NOW, BOB);
    bindings[0].origin.address = Some([10, 0, 0, 2].into());
    telephones.set(NOW, BOB, bindings).unwrap();
    for (contact, heard) in [
        ("sip:bob@10.0.0.2:5071", Some([10, 0, 0, 2].into())),
        ("sip:bob@10.0.0.3:5070", None),
    ] {
        let route = caller_way(&proxy, contact, "");
        let answer = proxy.handle_request(NOW, &bye(contact, &route), &telephones);
        let expected = Origin {
            address: heard,
            stream: None,
        };
        assert_eq!(forwards(answer)[0].origin, expected, "{contact}");
    }
}

#[test]
fn the_callers_way_goes_by_the_proxies_of_who_was_called() {
    let proxy = proxy();
    let edge = "<sip:192.0.2.40:5062;lr>";
    let route = caller_way(&proxy, "sip:bob@10.0.0.2", &format!("{edge}, "));
    let to =
        |target: &str, route: &str| proxy.handle_request(NOW, &bye(target, route), &location(&[]));
    let onward = forwards(to("sip:bob@10.0.0.2", &format!("{route}, {edge}")));
    assert_eq!(onward[0].next_hop.to_string(), "sip:192.0.2.40:5062;lr");
    assert_eq!(status(to("sip:bob@10.0.0.2", &route)), 403);
}

#[test]
fn an_answer_whose_ways_cannot_be_read_has_none() {
    let proxy = proxy();
    let location = location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let invite = request(Method::Invite, BOB);
    let forward = forwards(proxy.handle_request(NOW, &invite, &location)).remove(0);
    let mut answer = Response::new(&sent(&forward), StatusCode::OK, Some("b"));
    let own = called_way(&proxy, &invite);
    answer
        .headers
        .push(HeaderName::RecordRoute, format!("{own}, nonsense"));
    let (answer, _) = proxy.handle_response(&answer, |_| true).unwrap();
    assert!(!answer.headers.contains(&HeaderName::RecordRoute));
}

#[test]
fn a_way_that_was_not_recorded_for_this_call_leads_nowhere() {
    let (proxy, location) = (proxy(), location(&[]));
    let target = "sip:x@10.0.0.5:25;transport=tcp";
    let mut other = request(Method::Bye, target);
    other.headers.set(HeaderName::CallId, "2@a");
    let of_other = called_way(&proxy, &other);
    for route in [
        "<sip:proxy.example:5060;lr>",
        "<sip:proxy.example:5060;lr;a;d>",
        "<sip:proxy.example:5060;lr;a=Ym9i;d=0123456789abcdef>",
        &of_other,
    ] {
        let decision = proxy.handle_request(NOW, &bye(target, route), &location);
        assert_eq!(status(decision), 403, "{route}");
    }
    // A route through a foreign host does not lead to a user of the domain either.
    let registered = self::location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let mut invite = request(Method::Invite, BOB);
    for own in ["", "<sip:proxy.example:5060;lr>, "] {
        let route = format!("{own}<sip:10.0.0.5:25;transport=tcp;lr>");
        invite.headers.set(HeaderName::Route, route);
        let decision = proxy.handle_request(NOW, &invite, &registered);
        assert_eq!(status(decision), 403);
    }
    // The route that a strict router would take.
    let old = bye("sip:proxy.example:5060;lr", "<sip:x@10.0.0.5:25>");
    assert_eq!(status(proxy.handle_request(NOW, &old, &location)), 403);
}

#[test]
fn requests_that_must_not_be_forwarded_are_refused() {
    let location = location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let of = |name: HeaderName, value: &str| {
        let mut asked = request(Method::Options, BOB);
        asked.headers.set(name, value);
        proxy().handle_request(NOW, &asked, &location)
    };
    assert_eq!(status(of(HeaderName::MaxForwards, "0")), 483);
    assert_eq!(status(of(HeaderName::ProxyRequire, "unheard-of")), 420);
    assert_eq!(status(of(HeaderName::Contact, "<")), 400);
    let options = |uri| proxy().handle_request(NOW, &request(Method::Options, uri), &location);
    assert_eq!(status(options("tel:1")), 416);
    assert_eq!(status(options("sip:carol@example.org")), 480);
    assert_eq!(options("sip:example.org"), Decision::Own);
}

#[test]
fn a_request_that_comes_round_is_stopped() {
    let proxy = proxy();
    let direct = location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let asked = request(Method::Options, BOB);
    let forward = forwards(proxy.handle_request(NOW, &asked, &direct)).remove(0);
    // The receiver sends it back to the original name.
    let mut round = sent(&forward);
    round.uri = BOB.parse().unwrap();
    assert_eq!(status(proxy.handle_request(NOW, &round, &direct)), 482);
    // The mark depends on this proxy's key: no other proxy can create or match it.
    let domains = vec!["example.org".parse().unwrap()];
    let other = Proxy::new(sip("sip:proxy.example:5060"), domains, &[4; 32]);
    assert_eq!(
        forwards(other.handle_request(NOW, &round, &direct)).len(),
        1
    );
    // Forwarding to another name is no loop.
    round.uri = "sip:carol@example.org".parse().unwrap();
    assert_eq!(status(proxy.handle_request(NOW, &round, &direct)), 480);
    // Two users who name each other do not multiply it.
    let named = location(&[("sip:carol@example.org", 1000, "")]);
    assert_eq!(status(proxy.handle_request(NOW, &asked, &named)), 482);
}

#[test]
fn an_answer_goes_back_to_the_hop_before() {
    let proxy = proxy();
    let location = location(&[("sip:bob@192.0.2.2", 1000, "")]);
    let asked = request(Method::Options, BOB);
    let forward = forwards(proxy.handle_request(NOW, &asked, &location)).remove(0);
    let answer = Response::new(&sent(&forward), StatusCode::OK, Some("b"));
    let is_own = |via: &Via| via.host == "proxy.example".parse().unwrap();
    let (back, hop) = proxy.handle_response(&answer, is_own).unwrap();
    assert_eq!(hop.branch(), Some("z9hG4bK1"));
    assert_eq!(back.headers.vias().unwrap().len(), 1);
    assert_eq!(proxy.handle_response(&back, is_own), None);
    assert_eq!(proxy.handle_response(&answer, |_| false), None);
}

#[test]
fn a_caller_can_be_redirected_to_all_contacts() {
    let location = location(&[
        ("sip:bob@192.0.2.2", 250, ""),
        ("sip:bob@192.0.2.3", 750, ""),
    ]);
    let redirect = |uri| {
        let asked = request(Method::Invite, uri);
        proxy().redirect(NOW, &asked, &location, "p")
    };
    let answer = redirect(BOB).unwrap();
    assert_eq!(answer.status, StatusCode::MOVED_TEMPORARILY);
    let contacts: Vec<_> = answer.headers.raw(&HeaderName::Contact).collect();
    assert_eq!(
        contacts,
        [
            "<sip:bob@192.0.2.3>;q=0.75;expires=60",
            "<sip:bob@192.0.2.2>;q=0.25;expires=60",
        ]
    );
    let status = redirect("sip:carol@example.org").unwrap().status;
    assert_eq!(status, StatusCode::TEMPORARILY_UNAVAILABLE);
    assert_eq!(redirect("sip:bob@other.example"), None);
}

#[test]
fn the_best_answer_helps_most() {
    let asked = request(Method::Options, BOB);
    let best_of = |codes: &[u16]| {
        let answers = codes.iter().map(|code| {
            let status = StatusCode::new(*code).unwrap();
            Response::new(&asked, status, Some("b"))
        });
        best(&answers.collect::<Vec<_>>()).map(|answer| answer.status.as_u16())
    };
    assert_eq!(best_of(&[486, 200, 603]), Some(200));
    assert_eq!(best_of(&[486, 503, 603]), Some(603));
    assert_eq!(best_of(&[503, 486, 401]), Some(401));
    assert_eq!(best_of(&[503, 302, 401]), Some(302));
    assert_eq!(best_of(&[]), None);
}
