use std::net::Ipv6Addr;

use crate::host::{Host, HostError};

/// The parts of `HOST[:PORT]`: `gw.example`, `gw.example:7443`, `203.0.113.5`,
/// `[2001:db8::1]:7443`, `2001:db8::1`. What takes such a text decides which of these forms it
/// takes, and which ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPortParts {
    /// The host.
    pub host: Host,
    /// The port, if any.
    pub port: PortPart,
}

/// Port of `HOST[:PORT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPart {
    /// Nothing.
    Absent,
    /// Nothing, behind this address without brackets: its last group may have been meant as a port.
    Ambiguous(Ipv6Addr),
    /// A colon with nothing behind it. RFC 3986 §3.2.3 allows that.
    Empty,
    /// A number, 0 included.
    Number(u16),
}

/// The part at fault of a text that is not `HOST[:PORT]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPortFault<'a> {
    /// This part is no host. With colons in it, it may have been meant as an IPv6 address.
    Host(&'a str, HostError),
    /// A bracket is not closed.
    Unclosed,
    /// Something other than a port follows the brackets.
    BehindBrackets,
    /// This is no port: digits only, at most 65535.
    Port(&'a str),
}

impl HostPortParts {
    /// Reads `HOST[:PORT]`.
    ///
    /// # Errors
    /// The first part that is at fault.
    pub fn parse(text: &str) -> Result<Self, HostPortFault<'_>> {
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Ok(Self {
                host: Host::Ip(address.into()),
                port: PortPart::Ambiguous(address),
            });
        }
        // Colons within brackets belong to the address.
        let end = if text.starts_with('[') {
            text.find(']').ok_or(HostPortFault::Unclosed)? + 1
        } else {
            text.rfind(':').unwrap_or(text.len())
        };
        let (host, rest) = text.split_at(end);
        let parsed = host.parse();
        let host = parsed.map_err(|error| HostPortFault::Host(host, error))?;
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => PortPart::Absent,
            None => return Err(HostPortFault::BehindBrackets),
            Some("") => PortPart::Empty,
            Some(port) => {
                // Rust's own parser would take "+1" as well.
                let is_digits = port.bytes().all(|byte| byte.is_ascii_digit());
                let number = port.parse().ok().filter(|_| is_digits);
                PortPart::Number(number.ok_or(HostPortFault::Port(port))?)
            }
        };
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<(String, PortPart), HostPortFault<'_>> {
        let parts = HostPortParts::parse(text)?;
        Ok((parts.host.to_string(), parts.port))
    }

    #[test]
    fn hosts_are_read_with_and_without_port() {
        for (text, host, port) in [
            ("gw.example", "gw.example", PortPart::Absent),
            ("gw.example:", "gw.example", PortPart::Empty),
            ("gw.example:7443", "gw.example", PortPart::Number(7443)),
            ("203.0.113.5:0", "203.0.113.5", PortPart::Number(0)),
            ("[2001:db8::1]", "[2001:db8::1]", PortPart::Absent),
            ("[2001:db8::1]:1", "[2001:db8::1]", PortPart::Number(1)),
        ] {
            assert_eq!(read(text), Ok((host.to_owned(), port)), "{text}");
        }
        for text in ["2001:db8::1", "2001:db8::1:80"] {
            let address = text.parse().unwrap();
            let read_as = (format!("[{text}]"), PortPart::Ambiguous(address));
            assert_eq!(read(text), Ok(read_as));
        }
    }

    #[test]
    fn the_part_at_fault_is_named() {
        for (text, fault) in [
            ("", HostPortFault::Host("", HostError::Name)),
            (":1", HostPortFault::Host("", HostError::Name)),
            ("a b:+1", HostPortFault::Host("a b", HostError::Name)),
            ("a:b:1", HostPortFault::Host("a:b", HostError::Name)),
            ("a:1]", HostPortFault::Port("1]")),
            ("[gw]:1", HostPortFault::Host("[gw]", HostError::Address)),
            ("[::1:5", HostPortFault::Unclosed),
            ("[::1]80", HostPortFault::BehindBrackets),
            ("gw:+1", HostPortFault::Port("+1")),
            ("gw:65536", HostPortFault::Port("65536")),
        ] {
            assert_eq!(read(text), Err(fault), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,64}|[\\[\\]:.0-9a-f-]{0,30}") {
            let _ = HostPortParts::parse(&text);
        }
    }
}
