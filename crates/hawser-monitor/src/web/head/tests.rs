use proptest::prelude::*;

use super::*;

fn names(port: u16) -> OwnNames {
    OwnNames::of(SocketAddr::from(([127, 0, 0, 1], port)))
}

fn headers(list: &[(HeaderName, &[u8])]) -> HeaderMap {
    let pair = |(name, value): &(HeaderName, &[u8])| {
        (name.clone(), HeaderValue::from_bytes(value).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in list.iter().map(pair) {
        headers.append(name, value);
    }
    headers
}

fn is_meant(port: u16, host: &str, origin: Option<&str>) -> bool {
    let mut list = vec![(HOST, host.as_bytes())];
    list.extend(origin.map(|origin| (ORIGIN, origin.as_bytes())));
    let uri = Uri::from_static("/");
    names(port).are_meant(&uri, &headers(&list)).is_ok()
}

#[test]
fn it_answers_to_its_own_names_only() {
    for host in [
        "127.0.0.1:7480",
        "localhost:7480",
        "LocalHost:7480",
        "[::1]:7480",
    ] {
        assert!(is_meant(7480, host, None), "{host}");
    }
    for host in [
        "",
        "127.0.0.1",
        "127.0.0.1:7481",
        "127.0.0.1:07480",
        "127.1:7480",
        "localhost.:7480",
        "localhost.evil.example:7480",
        "evil.example:7480",
        "evil.example",
        "127.0.0.1:7480,evil.example",
    ] {
        assert!(!is_meant(7480, host, None), "{host}");
    }
    assert!(is_meant(80, "localhost", None) && is_meant(80, "[::1]", None));
    assert!(!is_meant(80, "localhost:7480", None));
}

#[test]
fn a_host_is_named_once_and_as_in_the_first_line() {
    let names = names(7480);
    let own: (_, &[u8]) = (HOST, b"localhost:7480");
    let none = names.are_meant(&Uri::from_static("/"), &headers(&[]));
    let twice = names.are_meant(
        &Uri::from_static("/"),
        &headers(&[own.clone(), own.clone()]),
    );
    assert_eq!((none, twice), (Err(NO_HOST), Err(NO_HOST)));
    let absolute =
        |uri| names.are_meant(&Uri::from_static(uri), &headers(std::slice::from_ref(&own)));
    assert_eq!(absolute("http://127.0.0.1:7480/"), Ok(()));
    assert_eq!(absolute("http://evil.example:7480/"), Err(OTHER_HOST));
}

#[test]
fn pages_of_others_may_not_ask() {
    let host = "localhost:7480";
    assert!(is_meant(7480, host, Some("http://localhost:7480")));
    for origin in [
        "null",
        "",
        "https://localhost:7480",
        "http://localhost",
        "http://localhost:7481",
        "http://127.0.0.1:7480",
        "http://evil.example:7480",
        "http://localhost:7480.evil.example",
    ] {
        assert!(!is_meant(7480, host, Some(origin)), "{origin}");
    }
}

#[test]
fn the_token_stands_behind_its_scheme() {
    let shown = |value: &[u8]| {
        let headers = headers(&[(AUTHORIZATION, value)]);
        shown_token(&headers).map(<[u8]>::to_vec)
    };
    assert_eq!(shown(b"Bearer abc"), Some(b"abc".to_vec()));
    assert_eq!(shown(b"bearer abc"), Some(b"abc".to_vec()));
    for wrong in [&b"abc"[..], b"Basic abc", b"Bearer", b""] {
        assert_eq!(shown(wrong), None, "{wrong:?}");
    }
    let twice: (_, &[u8]) = (AUTHORIZATION, b"Bearer abc");
    assert_eq!(shown_token(&headers(&[twice.clone(), twice])), None);
}

fn values() -> impl Strategy<Value = Vec<u8>> {
    let likely = prop::sample::select(vec![
        &b"localhost:7480"[..],
        b"http://localhost:7480",
        b"bearer ",
        b"Bearer token",
        b"127.0.0.1:7480",
        b"[::1]:",
    ]);
    let byte = prop_oneof![0x20u8..0x7f, 0x80u8..=0xff];
    (likely, prop::collection::vec(byte, 0..12), any::<bool>()).prop_map(
        |(likely, bytes, is_first)| {
            if is_first {
                [likely, &bytes].concat()
            } else {
                [&bytes, likely].concat()
            }
        },
    )
}

proptest! {
    #[test]
    fn only_exact_names_and_tokens_are_taken(
        hosts in prop::collection::vec(values(), 0..3),
        origins in prop::collection::vec(values(), 0..3),
        shown in prop::collection::vec(values(), 0..3),
    ) {
        let named = |name: HeaderName| move |value: &Vec<u8>| (name.clone(), value.clone());
        let mut headers = HeaderMap::new();
        let list = hosts.iter().map(named(HOST));
        let list = list.chain(origins.iter().map(named(ORIGIN)));
        for (name, value) in list.chain(shown.iter().map(named(AUTHORIZATION))) {
            headers.append(name, HeaderValue::from_bytes(&value).unwrap());
        }
        let own = [&b"localhost:7480"[..], b"127.0.0.1:7480", b"[::1]:7480"];
        let is_right = hosts.len() == 1
            && own.contains(&hosts[0].as_slice())
            && origins.iter().all(|origin| *origin == [b"http://", hosts[0].as_slice()].concat());
        let is_taken = names(7480).are_meant(&Uri::from_static("/"), &headers).is_ok();
        prop_assert_eq!(is_taken, is_right);
        let is_token = shown.len() == 1 && shown[0] == b"Bearer token";
        prop_assert_eq!(shown_token(&headers) == Some(&b"token"[..]), is_token);
    }
}
