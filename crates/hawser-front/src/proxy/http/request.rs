use super::body::Framing;
use super::fields::{Fields, write_field};
use super::head::{HeadScanner, NO_FIELDS, Version, malformed_by};
use crate::destination::Destination;
use crate::proxy::parse::{Malformed, Parse};

/// The header block of a request to this proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method, as sent.
    pub method: String,
    /// The target of the request.
    pub target: Target,
    /// The client's version.
    pub version: Version,
    /// How the body is delimited; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// True if the client will send further requests on this connection.
    pub persistent: bool,
    /// The protocols that the client asks to change to.
    pub upgrade: Option<Vec<u8>>,
    /// How many more proxies may forward the request, if the client limits them.
    pub max_forwards: Option<u32>,
    options: Vec<String>,
    fields: Fields,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// CONNECT: a tunnel.
    Tunnel(Destination),
    /// An absolute `http` URI.
    Forward {
        /// The server.
        destination: Destination,
        /// The server as the client wrote it, for `Host`.
        authority: String,
        /// Path and query, or `*`.
        path: String,
    },
}

/// Reads a request's header block. `scanner` and `bytes` as for [`HeadScanner::scan`].
pub fn parse_request(scanner: &mut HeadScanner, bytes: &[u8]) -> Parse<RequestHead> {
    match scanner.scan(bytes) {
        Parse::Incomplete => Parse::Incomplete,
        Parse::Malformed(reason) => Parse::Malformed(reason),
        Parse::Parsed { value, consumed } => match RequestHead::new(value) {
            Ok(value) => Parse::Parsed { value, consumed },
            Err(reason) => Parse::Malformed(reason),
        },
    }
}

impl RequestHead {
    fn new(head: &[u8]) -> Result<Self, Malformed> {
        let mut headers = NO_FIELDS;
        let mut request = httparse::Request::new(&mut headers);
        request.parse(head).map_err(malformed_by)?;
        let (Some(method), Some(target), Some(minor)) =
            (request.method, request.path, request.version)
        else {
            return Err(Malformed::Header);
        };
        let version = Version::from_minor(minor);
        let fields = Fields::new(request.headers);
        let target = parse_target(method, target)?;
        let framing = match &target {
            // All bytes that follow belong to the tunnel (RFC 9110 §9.3.6).
            Target::Tunnel(_) => Framing::None,
            Target::Forward { .. } => request_framing(version, &fields)?,
        };
        let options = fields.connection_options();
        let closes = options.iter().any(|option| option == "close");
        let upgrade = fields.upgrade(&options).filter(|protocols| {
            // HTTP/2 would begin with a body that this proxy cannot follow.
            version == Version::Http11 && !protocols.to_ascii_lowercase().starts_with(b"h2c")
        });
        Ok(Self {
            method: method.to_owned(),
            target,
            version,
            framing,
            // RFC 9112 §9.3: no persistence between a proxy and an HTTP/1.0 client.
            persistent: version == Version::Http11 && !closes,
            upgrade,
            max_forwards: max_forwards(method, &fields),
            options,
            fields,
        })
    }

    /// Returns the value of `Proxy-Authorization`, if there is exactly one. It is not forwarded.
    pub fn proxy_authorization(&self) -> Option<&[u8]> {
        let mut values = self.fields.values("proxy-authorization");
        let value = values.next()?;
        values.next().is_none().then_some(value)
    }

    /// True if the response has no body, whatever its header says.
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// True if the request is idempotent and can be sent twice.
    pub fn is_repeatable(&self) -> bool {
        let idempotent = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
        idempotent.contains(&self.method.as_str())
            && matches!(self.framing, Framing::None | Framing::Length(0))
            && self.upgrade.is_none()
    }

    /// Returns the header block for the server: origin form, `Host` from the target (RFC 9112
    /// §3.2.2), and no field of the connection to this proxy.
    ///
    /// `Via` is left out although RFC 9110 §7.6.3 asks for it: common servers stop compressing
    /// their responses when they see it, and for them this proxy is part of the client's machine.
    pub fn forward(&self) -> Vec<u8> {
        let (authority, path) = match &self.target {
            Target::Forward {
                authority, path, ..
            } => (authority.as_str(), path.as_str()),
            Target::Tunnel(_) => ("", "*"),
        };
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        write_field(&mut out, "Host", authority.as_bytes());
        let mut replaced = vec!["host"];
        if self.version == Version::Http10 {
            // RFC 9110 §10.1.1: an HTTP/1.0 client cannot mean `Expect`.
            replaced.push("expect");
        }
        if let Some(left) = self.max_forwards {
            replaced.push("max-forwards");
            let left = left.saturating_sub(1).to_string();
            write_field(&mut out, "Max-Forwards", left.as_bytes());
        }
        self.fields
            .write_end_to_end(&mut out, &self.options, &replaced);
        self.framing.write_field(&mut out);
        if let Some(protocols) = &self.upgrade {
            write_field(&mut out, "Connection", b"Upgrade");
            write_field(&mut out, "Upgrade", protocols);
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

fn parse_target(method: &str, target: &str) -> Result<Target, Malformed> {
    if method == "CONNECT" {
        let destination = target.parse().map_err(|_| Malformed::Target)?;
        return Ok(Target::Tunnel(destination));
    }
    let (scheme, rest) = target.split_once("://").ok_or(Malformed::Target)?;
    if !scheme.eq_ignore_ascii_case("http") {
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
        return Err(if is_scheme {
            Malformed::Scheme
        } else {
            Malformed::Target
        });
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).ok_or(Malformed::Target)?;
    // Fragments and user information must not be sent (RFC 9110 §4.2.4).
    if path.contains('#') {
        return Err(Malformed::Target);
    }
    let destination = Destination::parse(authority, Some(80)).map_err(|_| Malformed::Target)?;
    let path = match path {
        // RFC 9112 §3.2.4: the request is about the server as a whole.
        "" if method == "OPTIONS" => "*".to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("/{path}"),
    };
    Ok(Target::Forward {
        destination,
        authority: authority.to_owned(),
        path,
    })
}

fn request_framing(version: Version, fields: &Fields) -> Result<Framing, Malformed> {
    match (fields.is_chunked()?, fields.content_length()?) {
        // A sender of both may want two readers to disagree (RFC 9112 §6.1).
        (true, Some(_)) => Err(Malformed::Length),
        (true, None) if version == Version::Http10 => Err(Malformed::Length),
        (true, None) => Ok(Framing::Chunked),
        (false, Some(length)) => Ok(Framing::Length(length)),
        (false, None) => Ok(Framing::None),
    }
}

/// Reads `Max-Forwards`, which only these two methods use (RFC 9110 §7.6.2).
fn max_forwards(method: &str, fields: &Fields) -> Option<u32> {
    if method != "OPTIONS" && method != "TRACE" {
        return None;
    }
    let value = fields.values("max-forwards").next()?;
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Parse<RequestHead> {
        parse_request(&mut HeadScanner::new(), text.as_bytes())
    }

    fn forwarded(text: &str) -> String {
        String::from_utf8(parse(text).unwrap().0.forward()).unwrap()
    }

    #[test]
    fn absolute_form_becomes_origin_form_with_the_right_host() {
        let text =
            "GET http://Example.org:8080/a?b=c HTTP/1.1\r\nHost: wrong\r\nAccept: */*\r\n\r\n";
        let head = parse(text).unwrap().0;
        let Target::Forward { destination, .. } = &head.target else {
            panic!("not a forward target");
        };
        assert_eq!(destination.to_string(), "example.org:8080");
        assert_eq!(
            forwarded(text),
            "GET /a?b=c HTTP/1.1\r\nHost: Example.org:8080\r\nAccept: */*\r\n\r\n"
        );
    }

    #[test]
    fn paths_are_completed() {
        let line = |text: &str| {
            let head = forwarded(&format!("{text} HTTP/1.1\r\n\r\n"));
            head.lines().next().unwrap().to_owned()
        };
        assert_eq!(line("GET http://a"), "GET / HTTP/1.1");
        assert_eq!(line("GET HTTP://a?q"), "GET /?q HTTP/1.1");
        assert_eq!(line("OPTIONS http://a"), "OPTIONS * HTTP/1.1");
        assert_eq!(line("OPTIONS http://a/"), "OPTIONS / HTTP/1.1");
    }

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let text = "POST http://a/ HTTP/1.1\r\nConnection: close, X-Private\r\nX-Private: 1\r\n\
            Proxy-Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
            Proxy-Authorization: Basic eA==\r\nX-Public: 2\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(
            forwarded(text),
            "POST / HTTP/1.1\r\nHost: a\r\nX-Public: 2\r\nContent-Length: 3\r\n\r\n"
        );
        assert!(!parse(text).unwrap().0.persistent);
    }

    #[test]
    fn upgrade_is_passed_on_only_where_it_was_meant() {
        let asked = "GET http://a/ HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert!(forwarded(asked).contains("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
        let alone = "GET http://a/ HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
        assert!(!forwarded(alone).contains("Upgrade"));
        let h2c = "GET http://a/ HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n";
        assert_eq!(forwarded(h2c), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn http_1_0_clients_get_one_request_and_no_expectation() {
        let text =
            "GET http://a/ HTTP/1.0\r\nExpect: 100-continue\r\nConnection: keep-alive\r\n\r\n";
        assert!(!parse(text).unwrap().0.persistent);
        assert_eq!(forwarded(text), "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn max_forwards_is_counted_down() {
        let text = "OPTIONS http://a/ HTTP/1.1\r\nMax-Forwards: 3\r\n\r\n";
        assert!(forwarded(text).contains("Max-Forwards: 2\r\n"));
        let uncounted = "GET http://a/ HTTP/1.1\r\nMax-Forwards: 3\r\n\r\n";
        assert!(forwarded(uncounted).contains("Max-Forwards: 3\r\n"));
    }

    #[test]
    fn faults_are_told_apart() {
        let reason = |text: &str| parse(&format!("{text}\r\n\r\n")).malformed();
        assert_eq!(reason("GET / HTTP/1.1"), Malformed::Target);
        assert_eq!(reason("GET https://a/ HTTP/1.1"), Malformed::Scheme);
        assert_eq!(reason("GET http://u@a/ HTTP/1.1"), Malformed::Target);
        assert_eq!(reason("GET http:///x HTTP/1.1"), Malformed::Target);
        assert_eq!(reason("CONNECT a HTTP/1.1"), Malformed::Target);
        assert_eq!(reason("CONNECT http://a:1/ HTTP/1.1"), Malformed::Target);
        assert_eq!(reason("GET http://a/ HTTP/2.0"), Malformed::Version);
        assert_eq!(reason("G\x01T http://a/ HTTP/1.1"), Malformed::Header);
        let with = |fields: &str| reason(&format!("POST http://a/ HTTP/1.1\r\n{fields}"));
        assert_eq!(with("Content-Length: 1, 2"), Malformed::Length);
        assert_eq!(with("Content-Length: -1"), Malformed::Length);
        assert_eq!(with("Content-Length: +1"), Malformed::Length);
        assert_eq!(with("Content-Length:"), Malformed::Length);
        assert_eq!(
            with("Content-Length: 1\r\nTransfer-Encoding: chunked"),
            Malformed::Length
        );
        assert_eq!(
            with("Transfer-Encoding: gzip, chunked"),
            Malformed::TransferCoding
        );
        assert_eq!(with("Transfer-Encoding:"), Malformed::TransferCoding);
        assert_eq!(with(&"a: b\r\n".repeat(300)), Malformed::HeaderTooLarge);
    }

    #[test]
    fn a_tunnel_has_no_body() {
        let head = parse("CONNECT a:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n")
            .unwrap()
            .0;
        assert_eq!(head.target, Target::Tunnel("a:443".parse().unwrap()));
        assert_eq!(head.framing, Framing::None);
    }

    proptest! {
        #[test]
        fn what_is_forwarded_is_a_request_again(
            path in "/[a-z0-9/?=&%]{0,40}",
            names in prop::collection::vec("[A-Za-z][A-Za-z0-9-]{0,12}", 0..8),
            value in "[ -~]{0,30}",
            length in prop::option::of(any::<u64>()),
        ) {
            let mut text = format!("PUT http://host.example{path} HTTP/1.1\r\n");
            for name in names {
                text += &format!("X-{name}: {value}\r\n");
            }
            if let Some(length) = length {
                text += &format!("Content-Length: {length}\r\n");
            }
            text += "\r\n";
            let head = parse(&text).unwrap().0;
            let out = String::from_utf8(head.forward()).unwrap();
            let again = out.replacen(&path, &format!("http://host.example{path}"), 1);
            let again = parse(&again).unwrap().0;
            prop_assert_eq!(again.framing, head.framing);
            prop_assert_eq!(again.target, head.target);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            crate::fuzzing::fuzz_http_request(&bytes);
        }

        #[test]
        fn nearly_requests_never_panic(text in "(GET|CONNECT|OPTIONS) (http://)?[a-z:/\\[\\]@#?.é]{0,20} HTTP/1\\.[01]\r\n([A-Za-z-]{1,12}: ?[ -~]{0,20}\r\n){0,5}\r\n") {
            crate::fuzzing::fuzz_http_request(text.as_bytes());
        }
    }
}
