use super::body::Framing;
use super::fields::{Fields, write_field};
use super::head::{HeadScanner, NO_FIELDS, Version, malformed_by};
use crate::proxy::parse::{Malformed, Parse};

/// The header block of a server's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, 100 to 999.
    pub status: u16,
    /// How the body is delimited.
    pub framing: Framing,
    /// True if the server takes further requests on this connection.
    pub persistent: bool,
    reason: String,
    upgrade: Option<Vec<u8>>,
    /// The value of `Content-Length` for a body that is not sent.
    announced: Option<u64>,
    options: Vec<String>,
    fields: Fields,
}

/// Reads the header block of a response. `to_head`: the request was HEAD. `scanner` and `bytes` as
/// for [`HeadScanner::scan`].
pub fn parse_response(
    scanner: &mut HeadScanner,
    bytes: &[u8],
    to_head: bool,
) -> Parse<ResponseHead> {
    match scanner.scan(bytes) {
        Parse::Incomplete => Parse::Incomplete,
        Parse::Malformed(reason) => Parse::Malformed(reason),
        Parse::Parsed { value, consumed } => match ResponseHead::new(value, to_head) {
            Ok(value) => Parse::Parsed { value, consumed },
            Err(reason) => Parse::Malformed(reason),
        },
    }
}

impl ResponseHead {
    fn new(head: &[u8], to_head: bool) -> Result<Self, Malformed> {
        let mut headers = NO_FIELDS;
        let mut response = httparse::Response::new(&mut headers);
        // RFC 9112 §5.1, §5.2: some servers send such headers, and a proxy corrects them.
        httparse::ParserConfig::default()
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .parse_response(&mut response, head)
            .map_err(malformed_by)?;
        let (Some(minor), Some(status @ 100..)) = (response.version, response.code) else {
            return Err(Malformed::Header);
        };
        let reason = response.reason.unwrap_or_default().to_owned();
        let fields = Fields::new(response.headers);
        let version = Version::from_minor(minor);
        let is_bodiless = to_head || status < 200 || status == 204 || status == 304;
        let framing = if is_bodiless {
            Framing::None
        } else {
            response_framing(&fields)?
        };
        let announced = if is_bodiless && (to_head || status == 304) {
            fields.content_length().unwrap_or(None)
        } else {
            None
        };
        let options = fields.connection_options();
        let closes = options.iter().any(|option| option == "close");
        let ambiguous = fields.has("transfer-encoding") && fields.has("content-length");
        Ok(Self {
            status,
            framing,
            persistent: version == Version::Http11
                && !closes
                && !ambiguous
                && framing != Framing::UntilClose,
            reason,
            upgrade: fields.upgrade(&options),
            announced,
            options,
            fields,
        })
    }

    /// True if another response to the same request follows.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }

    /// True if the connection belongs to another protocol from here on.
    pub fn is_upgrade(&self) -> bool {
        self.status == 101
    }

    /// Returns the header block for the client. With `close` it announces that the connection ends
    /// after this response; without `chunks` the body will be sent without chunked coding.
    pub fn forward(&self, close: bool, chunks: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(
            format!("HTTP/1.1 {:03} {}\r\n", self.status, self.reason).as_bytes(),
        );
        self.fields.write_end_to_end(&mut out, &self.options, &[]);
        match (self.framing, self.announced) {
            (Framing::Chunked, _) if !chunks => {}
            (Framing::None, Some(length)) => Framing::Length(length).write_field(&mut out),
            (framing, _) => framing.write_field(&mut out),
        }
        match &self.upgrade {
            Some(protocols) if self.is_upgrade() => {
                write_field(&mut out, "Connection", b"Upgrade");
                write_field(&mut out, "Upgrade", protocols);
            }
            _ if close => write_field(&mut out, "Connection", b"close"),
            _ => {}
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// Follows RFC 9112 §6.3: chunked coding takes precedence over a length.
fn response_framing(fields: &Fields) -> Result<Framing, Malformed> {
    if fields.is_chunked()? {
        return Ok(Framing::Chunked);
    }
    Ok(fields
        .content_length()?
        .map_or(Framing::UntilClose, Framing::Length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> ResponseHead {
        parse_response(&mut HeadScanner::new(), text.as_bytes(), false)
            .unwrap()
            .0
    }

    #[test]
    fn the_body_is_delimited_as_the_header_says() {
        let framing = |text: &str| parse(&format!("HTTP/1.1 {text}\r\n\r\n")).framing;
        assert_eq!(framing("200 OK\r\nContent-Length: 5"), Framing::Length(5));
        assert_eq!(
            framing("200 OK\r\nTransfer-Encoding: chunked"),
            Framing::Chunked
        );
        assert_eq!(framing("200 OK"), Framing::UntilClose);
        assert_eq!(
            framing("204 No Content\r\nContent-Length: 5"),
            Framing::None
        );
        assert_eq!(
            framing("304 Not Modified\r\nContent-Length: 5"),
            Framing::None
        );
        assert_eq!(framing("100 Continue"), Framing::None);
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let head = parse_response(&mut HeadScanner::new(), text.as_bytes(), true);
        assert_eq!(head.unwrap().0.framing, Framing::None);
    }

    #[test]
    fn a_length_that_is_only_announced_is_kept() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        let (head, _) = parse_response(&mut HeadScanner::new(), text.as_bytes(), true).unwrap();
        assert_eq!(head.forward(false, true), text.as_bytes());
        let head = parse("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(
            head.forward(false, true),
            b"HTTP/1.1 204 No Content\r\n\r\n"
        );
    }

    #[test]
    fn persistence_ends_with_close_old_servers_and_ambiguity() {
        assert!(parse("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").persistent);
        assert!(!parse("HTTP/1.1 200 OK\r\n\r\n").persistent);
        assert!(!parse("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n").persistent);
        assert!(!parse("HTTP/1.1 204 OK\r\nConnection: Close\r\n\r\n").persistent);
        let both = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(!parse(both).persistent);
        assert_eq!(parse(both).framing, Framing::Chunked);
    }

    #[test]
    fn the_header_is_rewritten_for_this_connection() {
        let text = "HTTP/1.1 200 Fine\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n\
            Server : odd\r\nX-Folded: a\r\n b\r\nTransfer-Encoding: chunked\r\n\r\n";
        let head = parse(text);
        assert_eq!(
            String::from_utf8(head.forward(false, true)).unwrap(),
            "HTTP/1.1 200 Fine\r\nServer: odd\r\nX-Folded: a   b\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        );
        assert_eq!(
            String::from_utf8(head.forward(true, false)).unwrap(),
            "HTTP/1.1 200 Fine\r\nServer: odd\r\nX-Folded: a   b\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn switching_protocols_names_the_protocol() {
        let text =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let head = parse(text);
        assert!(head.is_upgrade() && !head.is_interim());
        assert_eq!(head.forward(true, true), text.as_bytes());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzzing::fuzz_http_response(&bytes);
        }

        #[test]
        fn nearly_responses_never_panic(
            status in "HTTP/1\\.[01] [0-9]{3} ?[a-z]{0,5}\r\n",
            fields in "([A-Za-z-]{1,12} ?: ?[ -~]{0,20}\r\n( [a-z]{0,5}\r\n)?){0,5}\r\n",
        ) {
            crate::fuzzing::fuzz_http_response((status + &fields).as_bytes());
        }
    }
}
