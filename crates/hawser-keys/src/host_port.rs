//! Where a gateway listens: an IP address or a DNS name, and a port.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;

use hawser_types::{Host, HostPortFault, HostPortParts, PortPart};
use serde::{Deserialize, Serialize};

/// An IP address or a DNS name with a port.
///
/// The text form is `192.0.2.1:7443`, `[2001:db8::1]:7443` or `gw.example.org:7443`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    /// Canonical form of the host, so that two texts of the same address are equal.
    host: Host,
    port: u16,
}

impl HostPort {
    /// Combines `host` and `port`, which is not 0. No label of a name begins or ends with a hyphen.
    pub fn new(host: Host, port: u16) -> Result<Self, ParseHostPortError> {
        let host = host.to_canonical();
        if let Host::Name(name) = &host
            && name.has_hyphen_at_edge()
        {
            return Err(ParseHostPortError::host(name.as_str()));
        }
        match port {
            0 => Err(ParseHostPortError::port("0")),
            _ => Ok(Self { host, port }),
        }
    }

    /// The host: never an IPv4-mapped address, and a name without its final dot.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The port, never 0.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the socket address, unless a name has to be looked up.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match &self.host {
            Host::Ip(ip) => Some(SocketAddr::new(*ip, self.port)),
            Host::Name(_) => None,
        }
    }

    /// Reads `HOST:PORT`, or `HOST` with `default_port`. An IPv6 address without a port may omit
    /// its brackets.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, ParseHostPortError> {
        let parts = HostPortParts::parse(text).map_err(|fault| match fault {
            HostPortFault::Host(part, _) => ParseHostPortError::host(part),
            HostPortFault::Port(part) => ParseHostPortError::port(part),
            HostPortFault::Unclosed | HostPortFault::BehindBrackets => {
                ParseHostPortError::host(text)
            }
        })?;
        let port = match (parts.port, default_port) {
            (PortPart::Number(port), _) => port,
            (PortPart::Absent | PortPart::Ambiguous(_), Some(port)) => port,
            (PortPart::Absent, None) => {
                return Err(ParseHostPortError::NoPort { got: excerpt(text) });
            }
            (PortPart::Ambiguous(ip), None) => return Err(ParseHostPortError::Brackets { ip }),
            (PortPart::Empty, _) => return Err(ParseHostPortError::port("")),
        };
        Self::new(parts.host, port)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for HostPort {
    type Err = ParseHostPortError;

    fn from_str(text: &str) -> Result<Self, ParseHostPortError> {
        Self::parse(text, None)
    }
}

impl TryFrom<String> for HostPort {
    type Error = ParseHostPortError;

    fn try_from(text: String) -> Result<Self, ParseHostPortError> {
        text.parse()
    }
}

impl From<HostPort> for String {
    fn from(address: HostPort) -> Self {
        address.to_string()
    }
}

impl TryFrom<SocketAddr> for HostPort {
    type Error = ParseHostPortError;

    fn try_from(address: SocketAddr) -> Result<Self, ParseHostPortError> {
        Self::new(Host::from(address.ip()), address.port())
    }
}

/// The reason why a text is not a host and port.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseHostPortError {
    /// Neither an address nor a name.
    #[error("expected an ip address or a dns name, got {got:?}")]
    Host {
        /// The start of the text.
        got: String,
    },
    /// Not a number, or not a valid port.
    #[error("expected a port from 1 to 65535, got {got:?}")]
    Port {
        /// The start of the text.
        got: String,
    },
    /// The port is missing.
    #[error("expected HOST:PORT, got no port in {got:?}")]
    NoPort {
        /// The start of the text.
        got: String,
    },
    /// An IPv6 address needs brackets when a port follows.
    #[error("write an ipv6 address with a port as [{ip}]:PORT")]
    Brackets {
        /// The address.
        ip: Ipv6Addr,
    },
}

impl ParseHostPortError {
    /// The text is neither an address nor a name.
    pub(crate) fn host(got: &str) -> Self {
        Self::Host { got: excerpt(got) }
    }

    fn port(got: &str) -> Self {
        Self::Port { got: excerpt(got) }
    }
}

/// Returns enough of a bad text to recognise it.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(MAX_EXCERPT).collect()
}

const MAX_EXCERPT: usize = 40;

#[cfg(test)]
pub(crate) mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    /// Any address that can be written.
    pub(crate) fn any_host_port() -> impl Strategy<Value = HostPort> {
        let host = prop_oneof![
            any::<IpAddr>().prop_map(Host::from),
            "([a-z0-9_]([a-z0-9-]{0,20}[a-z0-9])?\\.){0,4}[a-z][a-z0-9]{0,10}"
                .prop_map(|name| Host::Name(name.parse().unwrap())),
        ];
        (host, 1..=u16::MAX).prop_map(|(host, port)| HostPort::new(host, port).unwrap())
    }

    fn parse(text: &str) -> Result<String, ParseHostPortError> {
        text.parse::<HostPort>().map(|address| address.to_string())
    }

    #[test]
    fn addresses_and_names_are_read_in_their_usual_forms() {
        assert_eq!(parse("192.0.2.1:7443").unwrap(), "192.0.2.1:7443");
        assert_eq!(parse("[2001:DB8::1]:7443").unwrap(), "[2001:db8::1]:7443");
        assert_eq!(parse("[::ffff:192.0.2.1]:1").unwrap(), "192.0.2.1:1");
        assert_eq!(parse("GW.Example.org.:443").unwrap(), "gw.example.org:443");
    }

    #[test]
    fn a_missing_port_is_filled_in_where_that_is_asked_for() {
        let with_default = |text| HostPort::parse(text, Some(7443)).unwrap().to_string();
        assert_eq!(with_default("gw"), "gw:7443");
        assert_eq!(with_default("2001:db8::1"), "[2001:db8::1]:7443");
        assert_eq!(with_default("[2001:db8::1]"), "[2001:db8::1]:7443");
        assert_eq!(with_default("192.0.2.1:1"), "192.0.2.1:1");
    }

    #[test]
    fn an_error_says_what_it_got_and_what_is_allowed() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("gw"), r#"expected HOST:PORT, got no port in "gw""#);
        assert_eq!(error("gw:0"), r#"expected a port from 1 to 65535, got "0""#);
        assert_eq!(
            error("gw:+7"),
            r#"expected a port from 1 to 65535, got "+7""#
        );
        assert_eq!(
            error("2001:db8::1"),
            "write an ipv6 address with a port as [2001:db8::1]:PORT"
        );
        for bad in [
            "1.2.3:1",
            "1.2.3.400:1",
            ":1",
            "a..b:1",
            "-a:1",
            "a b:1",
            "[1.2.3.4]:1",
            "[::1:5",
        ] {
            let error = error(bad);
            assert!(
                error.starts_with("expected an ip address or a dns name"),
                "{bad}: {error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(address in any_host_port()) {
            prop_assert_eq!(address.to_string().parse(), Ok(address));
        }

        #[test]
        fn any_text_parses_without_panic(text in ".{0,80}") {
            let _ = HostPort::parse(&text, Some(1));
        }

        #[test]
        fn any_address_like_text_parses_without_panic(text in "[\\[\\]:.0-9a-f]{0,30}") {
            if let Ok(address) = text.parse::<HostPort>() {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }
    }
}
