//! Messages as datagrams and as streams.

use bytes::Bytes;

use crate::framer::{Framed, Framer};
use crate::message::{Datagram, Fault, Limits, Malformed, Message, read_datagram};

/// Parses bytes as a datagram and as a stream, in pieces whose size the first byte gives: both must
/// find the same message or none. A message is written and parsed again.
pub fn fuzz_message(data: &[u8]) {
    let Some((piece, data)) = data.split_first() else {
        return;
    };
    let limits = Limits {
        max_head: 4096,
        max_headers: 32,
        max_body: 2048,
    };
    let bytes = Bytes::copy_from_slice(data);
    let datagram = read_datagram(&bytes, &limits);
    let whole = first_of_stream(data, data.len().max(1), &limits);
    let pieces = first_of_stream(data, usize::from(*piece).max(1), &limits);
    assert_eq!(whole, pieces, "the stream depends on how it comes in");
    match (&datagram, &whole) {
        (Ok(Datagram::KeepAlive), Ok(None)) => {}
        (Ok(Datagram::Message { message, .. }), Ok(Some(streamed))) => {
            assert_eq!(message, streamed);
            check_message(message, &limits);
        }
        // Only a datagram may end without a length.
        (Ok(Datagram::Message { message, excess }), Err(malformed)) => {
            assert_eq!(malformed.fault, Fault::NoContentLength);
            assert_eq!(*excess, 0);
            check_message(message, &limits);
        }
        // Only a stream can wait for the rest.
        (Err(malformed), Ok(None)) => {
            let is_short = matches!(malformed.fault, Fault::NoEnd | Fault::BodyTooShort { .. });
            assert!(is_short, "{}", malformed.fault);
        }
        // A datagram without a length that is too long in total.
        (Err(datagram), Err(stream)) if stream.fault == Fault::NoContentLength => {
            assert!(matches!(datagram.fault, Fault::BodyTooLong { .. }));
        }
        (Err(datagram), Err(stream)) => assert_eq!(datagram, stream),
        _ => panic!("{datagram:?} is not {whole:?}"),
    }
    if let Err(malformed) = datagram {
        // The response to any malformed request can be written.
        let answer = malformed.answer("tag").map(|answer| answer.to_bytes());
        drop(answer);
    }
}

/// Returns the first message of a stream that arrives in pieces.
fn first_of_stream(
    data: &[u8],
    piece: usize,
    limits: &Limits,
) -> Result<Option<Message>, Box<Malformed>> {
    let mut framer = Framer::new(*limits);
    for piece in data.chunks(piece) {
        framer.push(piece);
        while let Some(framed) = framer.poll() {
            match framed {
                Framed::Message(message) => return Ok(Some(message)),
                Framed::Malformed(malformed) => return Err(malformed),
                Framed::LineEnd | Framed::Ping => {}
            }
        }
    }
    Ok(None)
}

fn check_message(message: &Message, limits: &Limits) {
    let Message::Request(request) = message else {
        check_written(message, limits);
        return;
    };
    check_written(message, limits);
    if let Ok(essentials) = request.essentials() {
        let mut copy = request.clone();
        copy.headers
            .set(crate::message::HeaderName::From, &essentials.from);
        copy.headers
            .set(crate::message::HeaderName::To, &essentials.to);
        let again = copy.essentials().expect("what is written can be read");
        assert_eq!(again, essentials);
    }
}

/// Checks that a written message parses as the same one.
fn check_written(message: &Message, limits: &Limits) {
    let bytes = message.to_bytes();
    let wide = Limits {
        // Full names and Content-Length may take more room than the original.
        max_head: limits.max_head * 20,
        max_headers: limits.max_headers + 1,
        ..*limits
    };
    let read = read_datagram(&bytes, &wide).unwrap_or_else(|fault| panic!("{fault}: {bytes:?}"));
    let Datagram::Message { message: read, .. } = read else {
        panic!("{bytes:?} is no message");
    };
    let without = |message: &Message| {
        let headers = message.headers().iter();
        let others = headers.filter(|(name, _)| name.as_str() != "Content-Length");
        let others = others.map(|(name, value)| (name.clone(), value.to_owned()));
        others.collect::<Vec<_>>()
    };
    assert_eq!(without(&read), without(message));
    match (read, message) {
        (Message::Request(read), Message::Request(request)) => {
            let parts = (&read.method, &read.uri, &read.body);
            assert_eq!(parts, (&request.method, &request.uri, &request.body));
        }
        (Message::Response(read), Message::Response(response)) => {
            let parts = (read.status, read.reason(), &read.body);
            assert_eq!(parts, (response.status, response.reason(), &response.body));
        }
        _ => panic!("a request is no answer"),
    }
}
