//! Entry points for fuzzers and for replaying their corpora. Each takes any bytes and panics only
//! when an invariant of a parser is broken.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use hawser_tunnel::packet::PacketView;

use crate::datagram::opening;
use crate::destination::Destination;
use crate::gateway::Cidr;
use crate::packets::question::Question;
use crate::packets::{Inner, Terms, Wish};
use crate::proxy::http::{
    Body, Framing, HeadScanner, RequestHead, Run, Target, parse_request, parse_response,
};
use crate::proxy::{Credentials, Malformed, Parse, Protocol, socks4, socks5};
use crate::udp_addresses::{MAX_ADDRESSES, list, take_list};

/// Every destination that decodes is encoded to bytes that decode to the same destination.
pub fn fuzz_destination(data: &[u8]) {
    if let Ok(destination) = Destination::decode(data) {
        let again = Destination::decode(&destination.to_bytes());
        assert_eq!(again.as_ref(), Ok(&destination));
        for is_call in [false, true] {
            let opening = opening::of(&destination, is_call);
            let read = opening::read(&opening);
            assert_eq!(read, Ok((destination.clone(), is_call)));
        }
        assert_eq!(destination.to_string().parse(), Ok(destination));
    }
    let _ = opening::read(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(destination) = text.parse::<Destination>()
    {
        assert_eq!(destination.to_string().parse(), Ok(destination));
    }
}

/// Openings and terms of packet tunnels are written as they were read. The answer to a DNS question
/// among the packets is a packet back to its sender.
pub fn fuzz_packets(data: &[u8]) {
    if let Some(wish) = Wish::of_opening(data) {
        assert_eq!(Wish::of_opening(&wish.to_opening()), Some(wish));
    }
    if let Some(terms) = Terms::read(data) {
        assert_eq!(Terms::read(&terms.to_bytes()), Some(terms));
    }
    let gateway = Inner {
        v4: Some(Ipv4Addr::new(10, 83, 0, 1)),
        v6: Some(Ipv6Addr::LOCALHOST),
    };
    let view = PacketView::parse(data).ok();
    if let Some(question) = view.and_then(|view| Question::of(&view, gateway)) {
        let answer = question.answered_by(&question.message);
        let view = PacketView::parse(&answer).expect("an answer is a packet");
        assert_eq!(view.destination(), question.from.ip());
        assert_eq!(view.ports(), Some((53, question.from.port())));
        assert_eq!(view.length(), answer.len());
    }
}

/// A list of addresses that was read is not too long, and its encoding reads as the same list.
pub fn fuzz_udp_addresses(data: &[u8]) {
    let read = |mut data: &[u8]| {
        // The data is complete, so the reader never waits.
        let mut context = Context::from_waker(Waker::noop());
        let polled = pin!(take_list(&mut data)).poll(&mut context);
        match polled {
            Poll::Ready(read) => read,
            Poll::Pending => panic!("the reader waits"),
        }
    };
    if let Ok(addresses) = read(data) {
        assert!(addresses.len() <= MAX_ADDRESSES);
        let canonical = |it: &SocketAddr| SocketAddr::new(it.ip().to_canonical(), it.port());
        let again = read(&list(&addresses)).ok();
        assert_eq!(again, Some(addresses.iter().map(canonical).collect()));
    }
}

/// Detection and SOCKS5: the result does not depend on bytes after the message.
pub fn fuzz_socks5(data: &[u8]) {
    if let Some(&first) = data.first() {
        let _ = Protocol::detect(first);
    }
    let after = match socks5::parse_greeting(data, socks5::Method::None) {
        Parse::Parsed { consumed, .. } => {
            assert!(consumed <= data.len());
            data.get(consumed..).unwrap_or_default()
        }
        Parse::Incomplete | Parse::Malformed(_) => data,
    };
    check_prefix(after, socks5::parse_request);
    if let Ok(credentials) = Credentials::parse("fuzz:fuzz") {
        check_prefix(data, |bytes| socks5::parse_login(bytes, &credentials));
    }
}

/// A datagram's payload is the end of the input, and its destination has a text form that parses.
pub fn fuzz_socks5_datagram(data: &[u8]) {
    if let Ok((destination, payload)) = socks5::parse_datagram(data) {
        assert!(data.ends_with(payload) && payload.len() + 8 <= data.len());
        assert_eq!(destination.to_string().parse(), Ok(destination));
    }
}

/// SOCKS4: the result does not depend on bytes after the message.
pub fn fuzz_socks4(data: &[u8]) {
    check_prefix(data, socks4::parse_request);
}

/// A request that is accepted is forwarded as one request, with the same target and body.
pub fn fuzz_http_request(data: &[u8]) {
    let parse = |bytes: &[u8]| parse_request(&mut HeadScanner::new(), bytes);
    let Parse::Parsed { value, consumed } = check_prefix(data, parse) else {
        return;
    };
    let lines = |head: &[u8]| head.iter().filter(|byte| **byte == b'\n').count();
    let head = data.get(..consumed).unwrap_or(data);
    let Target::Forward { authority, .. } = &value.target else {
        return;
    };
    let out = value.forward();
    let again = absolute(&value, authority, &out);
    match parse(&again) {
        Parse::Parsed {
            value: again_value,
            consumed,
        } => {
            assert_eq!(consumed, again.len());
            assert_eq!(again_value.target, value.target);
            assert_eq!(again_value.framing, value.framing);
        }
        // A request as large as is allowed lacked a field that forwarding adds, such as Host.
        Parse::Malformed(Malformed::HeaderTooLarge)
            if again.len() > head.len() || lines(&again) > lines(head) => {}
        other => panic!("forwarded request is not one: {other:?}"),
    }
}

/// A response that is accepted is forwarded as one response with the same body.
pub fn fuzz_http_response(data: &[u8]) {
    for to_head in [false, true] {
        let parse = |bytes: &[u8]| parse_response(&mut HeadScanner::new(), bytes, to_head);
        let Parse::Parsed { value, .. } = check_prefix(data, parse) else {
            continue;
        };
        let out = value.forward(false, true);
        match parse(&out) {
            Parse::Parsed {
                value: again,
                consumed,
            } => {
                assert_eq!(consumed, out.len());
                assert_eq!(again.status, value.status);
                assert_eq!(again.framing, value.framing);
            }
            other => panic!("forwarded response is not one: {other:?}"),
        }
    }
}

/// A chunked body decodes to the same content in one piece and byte by byte.
pub fn fuzz_http_body(data: &[u8]) {
    let whole = decode(data, data.len().max(1));
    let bytewise = decode(data, 1);
    assert_eq!(whole, bytewise);
}

/// A text that reads as a network is printed as the same network.
pub fn fuzz_cidr(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(cidr) = text.parse::<Cidr>()
    {
        assert_eq!(cidr.to_string().parse(), Ok(cidr));
    }
}

/// Parses `data`, and its consumed part alone; both results must be the same.
fn check_prefix<T: PartialEq + std::fmt::Debug>(
    data: &[u8],
    parse: impl Fn(&[u8]) -> Parse<T>,
) -> Parse<T> {
    let parsed = parse(data);
    if let Parse::Parsed { consumed, .. } = &parsed {
        let exact = data.get(..*consumed).expect("consumed what was there");
        assert_eq!(parse(exact), parsed);
    }
    parsed
}

/// Returns the origin-form request `out` with the absolute target back in its request line.
fn absolute(head: &RequestHead, authority: &str, out: &[u8]) -> Vec<u8> {
    let Target::Forward { path, .. } = &head.target else {
        return Vec::new();
    };
    let line_start = head.method.len() + 1;
    let rest = out
        .get(line_start + path.len()..)
        .expect("the request line holds the path");
    let path = if path == "*" { "" } else { path.as_str() };
    let mut again = format!("{} http://{authority}{path}", head.method).into_bytes();
    again.extend_from_slice(rest);
    again
}

/// Decodes a chunked body in pieces, up to its end, a fault or the end of the data. Returns the
/// content, and false after a fault.
fn decode(data: &[u8], piece: usize) -> (Vec<u8>, bool) {
    let mut body = Body::new(Framing::Chunked);
    let mut content = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let window = rest.get(..piece).unwrap_or(rest);
        let taken = match body.advance(window) {
            Ok(Run::End) => return (content, true),
            Ok(Run::Delimiter(length)) => length,
            Ok(Run::Content(length)) => {
                content.extend_from_slice(window.get(..length).expect("a run of the window"));
                length
            }
            Err(_) => return (content, false),
        };
        assert!(taken > 0, "no progress");
        rest = rest.get(taken..).expect("a run of the window");
    }
    (content, true)
}

#[cfg(test)]
mod tests;
