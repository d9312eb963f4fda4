//! Messages of RFC 4475: valid ones are parsed, others are refused for the right reason.

use std::collections::BTreeMap;

use crate::message::{Datagram, Limits, Method, read_datagram};
use crate::{Message, Request};
use bytes::Bytes;

/// Outcome of parsing a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// A message whose known header fields are all valid.
    Valid,
    /// A request that is refused with this status.
    Refused(u16),
    /// No message at all. A request is refused with this status; 0 means no response.
    Malformed(u16),
    /// A response that can't be parsed.
    Discarded,
}
use Outcome::{Discarded, Malformed, Refused, Valid};

/// The outcome that RFC 4475 requires or allows, with its wording where helpful.
const EXPECTED: [(&str, Outcome); 49] = [
    ("wsinv", Valid),
    // An unknown method: 501.
    ("intmeth", Refused(501)),
    ("esc01", Valid),
    ("escnull", Valid),
    // The method is not REGISTER, because escapes mean nothing in a method.
    ("esc02", Refused(501)),
    ("lwsdisp", Valid),
    ("longreq", Valid),
    // Bytes behind the first message are ignored.
    ("dblreq", Valid),
    ("semiuri", Valid),
    ("transports", Valid),
    ("mpart01", Refused(501)),
    ("unreason", Valid),
    ("noreason", Valid),
    ("badinv01", Refused(400)),
    ("clerr", Malformed(400)),
    ("ncl", Malformed(400)),
    ("scalar02", Refused(400)),
    ("scalarlg", Discarded),
    ("quotbal", Refused(400)),
    ("ltgtruri", Malformed(400)),
    ("lwsruri", Malformed(400)),
    ("lwsstart", Malformed(400)),
    ("trws", Malformed(400)),
    ("escruri", Malformed(400)),
    // This crate does not parse Date, so its zone does no harm.
    ("baddate", Valid),
    ("regbadct", Refused(400)),
    ("badaspec", Refused(400)),
    ("baddn", Refused(400)),
    ("badvers", Malformed(505)),
    ("mismatch01", Refused(400)),
    ("mismatch02", Refused(400)),
    ("bigcode", Malformed(0)),
    ("badbranch", Valid),
    ("insuf", Refused(400)),
    ("unkscm", Refused(416)),
    ("novelsc", Refused(416)),
    // A registrar refuses To; the message itself is well-formed.
    ("unksm2", Valid),
    ("bext01", Refused(420)),
    // The receiver of the body has to judge its type.
    ("invut", Valid),
    ("regaut01", Valid),
    ("multi01", Refused(400)),
    ("mcl01", Malformed(400)),
    ("bcast", Valid),
    // Hops matter only to a proxy.
    ("zeromf", Valid),
    ("cparam01", Valid),
    ("cparam02", Valid),
    ("regescrt", Valid),
    ("sdp01", Valid),
    // From has no tag, and there is neither Content-Length nor Max-Forwards nor a branch.
    ("inv2543", Valid),
];

#[test]
fn every_message_has_the_outcome_that_the_standard_asks_for() {
    let messages = messages();
    assert_eq!(messages.len(), EXPECTED.len());
    for (name, expected) in EXPECTED {
        assert_eq!(outcome(&messages[name]), expected, "{name}");
    }
}

#[test]
fn valid_messages_say_what_the_standard_says_they_do() {
    let messages = messages();
    let request = |name: &str| match read(&messages[name]) {
        Message::Request(request) => request,
        Message::Response(_) => panic!("{name} is a request"),
    };
    let tortuous = request("wsinv");
    let essentials = tortuous.essentials().unwrap();
    assert_eq!(essentials.vias.len(), 3);
    assert_eq!(essentials.vias[1].branch(), Some("z9hG4bK9ikj8"));
    assert_eq!(essentials.from.display.as_deref(), Some("J Rosenberg \\\""));
    assert_eq!(essentials.to.tag(), Some("1918181833n"));
    assert_eq!(essentials.cseq.number, 9);
    let unusual = request("intmeth").essentials().unwrap();
    let display = unusual.to.display.unwrap();
    assert_eq!(display, "BEL:\u{7} NUL:\0 DEL:\u{7f}");
    let parameter = unusual.from.params.value("fromparam''~+*_!.-%");
    assert_eq!(parameter, Some("работающий"));
    let long = request("longreq").essentials().unwrap();
    assert_eq!(long.vias.len(), 34);
    let semicolon = request("semiuri");
    let uri = semicolon.uri.as_sip().unwrap();
    assert_eq!(uri.user().as_deref(), Some("user;par=u@example.net"));
    let (number, method) = (14_398_234, Method::Register);
    let nulls = request("escnull").essentials().unwrap().cseq;
    assert_eq!((nulls.number, nulls.method), (number, method));
}

#[test]
fn what_is_behind_the_body_of_a_datagram_is_counted() {
    let double = &messages()["dblreq"];
    let read = read_datagram(double, &Limits::default());
    let Ok(Datagram::Message { message, excess }) = read else {
        panic!("it is a message");
    };
    assert!(matches!(
        message,
        Message::Request(Request {
            method: Method::Register,
            ..
        })
    ));
    assert!(excess > 400, "{excess}");
}

/// Datagram and stream agree on every message, and on every prefix of it.
#[test]
fn a_stream_and_a_datagram_agree_on_every_beginning_of_every_message() {
    for message in messages().values() {
        // Long messages in steps: each prefix costs as much as the whole.
        for end in (0..=message.len()).step_by(1 + message.len() / 1000) {
            let mut input = vec![7];
            input.extend_from_slice(&message[..end]);
            crate::fuzzing::fuzz_message(&input);
        }
    }
}

fn outcome(bytes: &Bytes) -> Outcome {
    let methods = [Method::Invite, Method::Register, Method::Options];
    match read_datagram(bytes, &Limits::default()) {
        Err(malformed) => {
            let answer = malformed.answer("tag");
            Malformed(answer.map_or(0, |answer| answer.status.as_u16()))
        }
        Ok(Datagram::Message { message, .. }) => match message {
            Message::Request(request) => match request.refusal(&methods, &[]) {
                Some(refusal) => Refused(refusal.answer(&request, "tag").status.as_u16()),
                None => Valid,
            },
            Message::Response(response) => match response.essentials() {
                Ok(_) => Valid,
                Err(_) => Discarded,
            },
        },
        Ok(other) => panic!("{other:?}"),
    }
}

fn read(bytes: &Bytes) -> Message {
    match read_datagram(bytes, &Limits::default()) {
        Ok(Datagram::Message { message, .. }) => message,
        other => panic!("{other:?}"),
    }
}

/// The messages by their names.
fn messages() -> BTreeMap<String, Bytes> {
    let mut messages = BTreeMap::new();
    let file = include_str!("torture/messages.txt");
    let file = file.strip_suffix('\n').unwrap();
    for part in file.split("\n=== ").skip(1) {
        let (title, text) = part.split_once('\n').unwrap();
        let (name, _) = title.split_once(' ').unwrap();
        messages.insert(name.to_owned(), Bytes::from(expand(&format!("{text}\n"))));
    }
    messages
}

fn expand(text: &str) -> Vec<u8> {
    let text = text.replace("<join>\n", "").replace('\n', "\r\n");
    let mut out = Vec::new();
    let mut rest = text.as_str();
    while let Some((before, mark)) = next_mark(rest) {
        out.extend_from_slice(before.as_bytes());
        let end = mark.find('>').unwrap();
        let (kind, argument) = mark[1..end].split_once(' ').unwrap();
        match kind {
            "hex" => {
                let digits = argument.as_bytes().chunks(2);
                let pairs = digits.map(|pair| std::str::from_utf8(pair).unwrap());
                out.extend(pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()));
            }
            "repeat" => {
                let (times, text) = argument.split_once(' ').unwrap();
                out.extend(text.repeat(times.parse().unwrap()).into_bytes());
            }
            _ => out.extend(session(argument).into_bytes()),
        }
        rest = &mark[end + 1..];
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Splits in front of the next mark.
fn next_mark(text: &str) -> Option<(&str, &str)> {
    let places = ["<hex ", "<repeat ", "<sdp "].map(|mark| text.find(mark));
    let place = places.into_iter().flatten().min()?;
    Some(text.split_at(place))
}

/// The description of most messages; its last line end is behind the mark.
fn session(address: &str) -> String {
    format!(
        "v=0\r\no=mhandley 29739 7272939 IN IP4 {address}\r\ns=-\r\nc=IN IP4 {address}\r\n\
         t=0 0\r\nm=audio 49217 RTP/AVP 0 12\r\nm=video 3227 RTP/AVP 31\r\na=rtpmap:31 LPC"
    )
}
