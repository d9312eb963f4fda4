//! Messages out of a stream (RFC 3261 §18.3, RFC 5626 §3.5.1).

use bytes::{Buf, BytesMut};

use crate::message::{Fault, Limits, Malformed, Message, Scan, scan};

/// Cuts a stream of bytes into messages.
///
/// Add received bytes with [`Framer::push`], then drain [`Framer::poll`]. The framer holds at most
/// one message besides the last bytes. After a fault the start of the next message is unknown, so
/// the stream is over: refuse the request if it was one ([`Malformed::answer`]), and close.
#[derive(Debug)]
pub struct Framer {
    limits: Limits,
    buffer: BytesMut,
    /// Bytes of the buffer that were already searched for the end of a head.
    searched: usize,
    /// Whether the last thing on the stream was half a ping.
    is_half_ping: bool,
    is_over: bool,
}

/// Next element of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A message.
    Message(Message),
    /// A line end in front of a message: the answer to a ping, or the first half of one.
    LineEnd,
    /// A second line end: a ping. The server answers it with one line end.
    Ping,
    /// A fault, after which the stream is over.
    Malformed(Box<Malformed>),
}

impl Framer {
    /// Creates a framer for the beginning of a stream.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            searched: 0,
            is_half_ping: false,
            is_over: false,
        }
    }

    /// Adds received bytes. After a fault they are dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.is_over {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns the next element of the stream; `None` if more bytes are needed.
    pub fn poll(&mut self) -> Option<Framed> {
        if self.is_over {
            return None;
        }
        if self.searched == 0 && self.buffer.starts_with(b"\r\n") {
            self.buffer.advance(2);
            self.is_half_ping = !self.is_half_ping;
            return Some(if self.is_half_ping {
                Framed::LineEnd
            } else {
                Framed::Ping
            });
        }
        // A line end may have arrived in part.
        if self.buffer.is_empty() || self.buffer[..] == b"\r"[..] {
            return None;
        }
        match self.next_message() {
            Ok(message) => message.map(Framed::Message),
            Err(malformed) => {
                self.is_over = true;
                self.buffer = BytesMut::new();
                Some(Framed::Malformed(malformed))
            }
        }
    }

    /// Whether a fault has ended the stream.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    fn next_message(&mut self) -> Result<Option<Message>, Box<Malformed>> {
        let head = match scan(&self.buffer, self.searched, &self.limits)? {
            Scan::Head(head) => head,
            Scan::Incomplete { searched } => {
                self.searched = searched;
                return Ok(None);
            }
        };
        let Some(body) = head.body else {
            return Err(head.malformed(Fault::NoContentLength));
        };
        if self.buffer.len() - head.length < body {
            // The next call finds the head at once.
            self.searched = head.length - 4;
            return Ok(None);
        }
        self.searched = 0;
        self.is_half_ping = false;
        self.buffer.advance(head.length);
        let body = self.buffer.split_to(body).freeze();
        Ok(Some(head.into_message(body)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &str = "OPTIONS sip:a@b SIP/2.0\r\nl: 3\r\n\r\n";

    fn framer() -> Framer {
        Framer::new(Limits::default())
    }

    fn is_message(framed: Option<Framed>) -> bool {
        matches!(framed, Some(Framed::Message(_)))
    }

    #[test]
    fn messages_and_pings_are_told_apart_however_they_come() {
        let text = format!("{OPTIONS}abc\r\n\r\n{OPTIONS}def\r\n");
        for piece in 1..text.len() {
            let mut framer = framer();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(piece) {
                framer.push(piece);
                found.extend(std::iter::from_fn(|| framer.poll()));
            }
            let bodies: Vec<_> = found
                .iter()
                .map(|framed| match framed {
                    Framed::Message(Message::Request(request)) => &request.body[..],
                    Framed::LineEnd => b"end",
                    Framed::Ping => b"ping",
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(
                bodies,
                [&b"abc"[..], b"end", b"ping", b"def", b"end"],
                "{piece}"
            );
        }
    }

    #[test]
    fn a_stream_is_over_where_a_message_does_not_say_where_it_ends() {
        let mut framer = framer();
        framer.push(format!("{OPTIONS}abcINVITE sip:a@b SIP/2.0\r\n\r\n{OPTIONS}abc").as_bytes());
        assert!(is_message(framer.poll()));
        let Some(Framed::Malformed(malformed)) = framer.poll() else {
            panic!("there is no length");
        };
        assert_eq!(malformed.fault, Fault::NoContentLength);
        framer.push(OPTIONS.as_bytes());
        assert_eq!(framer.poll(), None);
        assert!(framer.is_over());
    }

    #[test]
    fn a_head_without_end_and_a_body_that_is_too_long_are_refused_early() {
        let mut framer = framer();
        framer.push(b"OPTIONS sip:a@b SIP/2.0\r\nA: ");
        for _ in 0..300 {
            assert!(framer.buffer.len() < 17 << 10);
            framer.push(&[b'x'; 64]);
            match framer.poll() {
                None => {}
                Some(Framed::Malformed(malformed)) => {
                    assert_eq!(malformed.fault, Fault::HeadTooLong(16 << 10));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(framer.is_over());
        let mut framer = super::tests::framer();
        framer.push(b"OPTIONS sip:a@b SIP/2.0\r\nl: 65537\r\n\r\n");
        let Some(Framed::Malformed(malformed)) = framer.poll() else {
            panic!("too long");
        };
        let (length, max) = (65537, 65536);
        assert_eq!(malformed.fault, Fault::BodyTooLong { length, max });
    }
}
