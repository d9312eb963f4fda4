//! Parsing of messages: datagrams and streams share the code that delimits messages and lines.

mod start;

use std::str;

use bytes::Bytes;
use memchr::memmem;
use thiserror::Error;

use super::{HeaderFault, HeaderName, Headers, Message, Request, Response, StatusCode};
use crate::cursor::{Cursor, SyntaxFault, is_field_text};
use crate::fields::Field;
use start::Start;
pub use start::StartLineFault;

/// Limits of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the start line and the header fields.
    pub max_head: usize,
    /// Header fields.
    pub max_headers: usize,
    /// Bytes of the body.
    pub max_body: usize,
}

impl Default for Limits {
    /// 16 KiB and 256 header fields, and a body of 64 KiB.
    fn default() -> Self {
        Self {
            max_head: 16 << 10,
            max_headers: 256,
            max_body: 64 << 10,
        }
    }
}

/// Content of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// Only line ends, or nothing: a keep-alive for a NAT mapping (RFC 5626 §3.5).
    KeepAlive,
    /// A message.
    Message {
        /// The message.
        message: Message,
        /// Bytes behind its body, which are to be ignored (RFC 3261 §18.3).
        excess: usize,
    },
}

/// Reason why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The empty line behind the header fields is missing.
    #[error("the empty line behind the header fields is missing")]
    NoEnd,
    /// Start line and header fields take more bytes than are allowed.
    #[error("start line and header fields take more than {0} bytes")]
    HeadTooLong(usize),
    /// There are more header fields than are allowed.
    #[error("more than {0} header fields")]
    TooManyHeaders(usize),
    /// The head is no UTF-8.
    #[error("start line and header fields are no UTF-8")]
    NotUtf8,
    /// A line has a control character in it, or ends with half a line end.
    #[error("line {0} has a control character in it")]
    ControlCharacter(usize),
    /// The start line can't be read.
    #[error("start line: {0}")]
    StartLine(#[from] StartLineFault),
    /// A line is no header field.
    #[error("line {0} is no header field")]
    NoHeader(usize),
    /// Content-Length can't be read.
    #[error(transparent)]
    ContentLength(#[from] HeaderFault),
    /// Content-Length is missing on a stream, where only it delimits the body.
    #[error("Content-Length is missing on a stream")]
    NoContentLength,
    /// The body is longer than allowed.
    #[error("a body of {length} bytes; at most {max} are allowed")]
    BodyTooLong {
        /// Its length.
        length: u64,
        /// The limit.
        max: usize,
    },
    /// The datagram ends before the body does.
    #[error("Content-Length is {expected}, but {found} bytes follow")]
    BodyTooShort {
        /// Its length by Content-Length.
        expected: usize,
        /// Bytes that follow the head.
        found: usize,
    },
}

/// Bytes that are no message, with their readable parts, so that a request can be refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{fault}")]
pub struct Malformed {
    /// The first fault.
    pub fault: Fault,
    is_request: bool,
    headers: Headers,
}

impl Malformed {
    /// Returns the response to a malformed request, built from the parts that could be read. `None`
    /// if it was no request, is an ACK, or too little could be read. `tag` is added to To. Send the
    /// response to the source of the request, because Via itself may be faulty.
    #[must_use]
    pub fn answer(&self, tag: &str) -> Option<Response> {
        let is_ack = self
            .headers
            .cseq()
            .is_ok_and(|cseq| cseq.method == super::Method::Ack);
        let has_way = self.headers.contains(&HeaderName::Via);
        let is_complete = [
            HeaderName::From,
            HeaderName::To,
            HeaderName::CallId,
            HeaderName::CSeq,
        ]
        .iter()
        .all(|name| self.headers.raw(name).count() == 1);
        if !self.is_request || is_ack || !has_way || !is_complete {
            return None;
        }
        let response = Response::to_headers(&self.headers, self.status(), Some(tag));
        let text = self.to_string();
        Some(if is_field_text(&text) {
            response.with_reason(&text)
        } else {
            response
        })
    }

    fn status(&self) -> StatusCode {
        match &self.fault {
            Fault::StartLine(StartLineFault::Version(_)) => StatusCode::VERSION_NOT_SUPPORTED,
            Fault::BodyTooLong { .. } => StatusCode::REQUEST_ENTITY_TOO_LARGE,
            Fault::HeadTooLong(_) | Fault::TooManyHeaders(_) => StatusCode::MESSAGE_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

/// Parses the message in a datagram.
///
/// # Errors
/// The first fault, if the datagram is no message.
pub fn read_datagram(bytes: &Bytes, limits: &Limits) -> Result<Datagram, Box<Malformed>> {
    let skipped = line_ends(bytes);
    let bytes = bytes.slice(skipped..);
    if bytes.is_empty() {
        return Ok(Datagram::KeepAlive);
    }
    let head = match scan(&bytes, 0, limits)? {
        Scan::Head(head) => head,
        Scan::Incomplete { .. } => return Err(Malformed::bare(Fault::NoEnd)),
    };
    let found = bytes.len() - head.length;
    let expected = match head.body {
        Some(expected) => expected,
        None if found <= limits.max_body => found,
        None => {
            let length = found as u64;
            let max = limits.max_body;
            return Err(head.malformed(Fault::BodyTooLong { length, max }));
        }
    };
    if found < expected {
        return Err(head.malformed(Fault::BodyTooShort { expected, found }));
    }
    let excess = found - expected;
    let body = bytes.slice(head.length..head.length + expected);
    let message = head.into_message(body);
    Ok(Datagram::Message { message, excess })
}

/// Kind of a datagram, guessed before parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Glance {
    /// [`Datagram::KeepAlive`].
    KeepAlive,
    /// Probably a response.
    Answer,
    /// Probably a request.
    Request,
}

/// Guesses the kind of a datagram without parsing it.
pub(crate) fn glance(bytes: &[u8]) -> Glance {
    match &bytes[line_ends(bytes)..] {
        [] => Glance::KeepAlive,
        rest if rest.starts_with(b"SIP/") => Glance::Answer,
        _ => Glance::Request,
    }
}

/// Length of the line ends in front of a message, which are skipped (RFC 3261 §7.5).
pub(crate) fn line_ends(bytes: &[u8]) -> usize {
    let pairs = bytes.chunks_exact(2);
    2 * pairs.take_while(|pair| pair == b"\r\n").count()
}

/// Result of the search for a message's head.
pub(crate) enum Scan {
    /// The end of the head has not arrived. `searched` bytes need not be searched again.
    Incomplete {
        /// Bytes searched so far.
        searched: usize,
    },
    /// The head is complete.
    Head(Box<Head>),
}

/// The start line and the header fields of a message.
pub(crate) struct Head {
    start: Start,
    headers: Headers,
    /// Bytes of the head, including the empty line.
    pub(crate) length: usize,
    /// Content-Length, within the limit; `None` without that field.
    pub(crate) body: Option<usize>,
}

impl Head {
    pub(crate) fn into_message(self, body: Bytes) -> Message {
        let headers = self.headers;
        match self.start {
            Start::Request(method, uri) => Message::Request(Request {
                method,
                uri,
                headers,
                body,
            }),
            Start::Response(status, reason) => Message::Response(Response {
                status,
                reason,
                headers,
                body,
            }),
        }
    }

    pub(crate) fn malformed(self, fault: Fault) -> Box<Malformed> {
        let is_request = matches!(self.start, Start::Request(..));
        Box::new(Malformed {
            fault,
            is_request,
            headers: self.headers,
        })
    }
}

impl Malformed {
    fn bare(fault: Fault) -> Box<Self> {
        Box::new(Self {
            fault,
            is_request: false,
            headers: Headers::default(),
        })
    }
}

/// Searches for the head of a message in bytes that do not begin with a line end. The first
/// `searched` bytes were searched before.
pub(crate) fn scan(bytes: &[u8], searched: usize, limits: &Limits) -> Result<Scan, Box<Malformed>> {
    const END: &[u8] = b"\r\n\r\n";
    let window = &bytes[searched..bytes.len().min(limits.max_head)];
    let Some(found) = memmem::find(window, END) else {
        return if bytes.len() >= limits.max_head {
            Err(Malformed::bare(Fault::HeadTooLong(limits.max_head)))
        } else {
            // The last three bytes may begin the end mark.
            let searched = bytes.len().saturating_sub(END.len() - 1).max(searched);
            Ok(Scan::Incomplete { searched })
        };
    };
    let end = searched + found;
    let text = str::from_utf8(&bytes[..end]).map_err(|_| Malformed::bare(Fault::NotUtf8))?;
    read_head(text, end + END.len(), limits).map(|head| Scan::Head(Box::new(head)))
}

/// Parses a head without its last line end. After a faulty line the other lines are still parsed.
fn read_head(text: &str, length: usize, limits: &Limits) -> Result<Head, Box<Malformed>> {
    let mut lines = text.split("\r\n").enumerate();
    let first = lines.next().map_or("", |(_, first)| first);
    let mut fault = None;
    let start = if is_field_text(first) {
        Start::read(first).map_err(Fault::from)
    } else {
        Err(Fault::ControlCharacter(1))
    };
    let mut headers = Headers::default();
    for (number, line) in lines {
        let read = if headers.len() > limits.max_headers {
            Err(Fault::TooManyHeaders(limits.max_headers))
        } else {
            read_line(line, number + 1, &mut headers)
        };
        if let Err(wrong) = read {
            let is_final = matches!(wrong, Fault::TooManyHeaders(_));
            fault.get_or_insert(wrong);
            if is_final {
                break;
            }
        }
    }
    if headers.len() > limits.max_headers {
        fault.get_or_insert(Fault::TooManyHeaders(limits.max_headers));
    }
    let body = body_length(&headers, limits);
    let is_request = !start::is_status_line(first);
    match (start, fault, body) {
        (Ok(start), None, Ok(body)) => Ok(Head {
            start,
            headers,
            length,
            body,
        }),
        (Err(fault), ..) | (_, Some(fault), _) | (_, _, Err(fault)) => Err(Box::new(Malformed {
            fault,
            is_request,
            headers,
        })),
    }
}

fn read_line(line: &str, number: usize, headers: &mut Headers) -> Result<(), Fault> {
    if !is_field_text(line) {
        return Err(Fault::ControlCharacter(number));
    }
    let space = [' ', '\t'];
    if line.starts_with(space) {
        return if headers.extend_last(line.trim_matches(space)) {
            Ok(())
        } else {
            Err(Fault::NoHeader(number))
        };
    }
    let mut cursor = Cursor::new(line);
    let name = cursor
        .token("a name")
        .map_err(|_| Fault::NoHeader(number))?;
    if !cursor.eat(':') {
        return Err(Fault::NoHeader(number));
    }
    let value = cursor.rest().trim_end_matches(space).to_owned();
    headers.push_read(HeaderName::named(name), value);
    Ok(())
}

/// Returns the body's length, if the head gives it.
fn body_length(headers: &Headers, limits: &Limits) -> Result<Option<usize>, Fault> {
    let Some(Length(length)) = headers.one(HeaderName::ContentLength)? else {
        return Ok(None);
    };
    let max = limits.max_body;
    match usize::try_from(length) {
        Ok(length) if length <= max => Ok(Some(length)),
        _ => Err(Fault::BodyTooLong { length, max }),
    }
}

struct Length(u64);

impl Field for Length {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        cursor.number("a number of bytes", u64::MAX).map(Self)
    }
}
