//! Destination of a stream: a host and a port, as text and as bytes.
//!
//! # Bytes
//!
//! The encoding is the metadata of a stream's opening chunk. Integers are big-endian.
//!
//! | offset | bytes | meaning |
//! |---|---|---|
//! | 0 | 1 | kind of host: 1 IPv4 address, 2 IPv6 address, 3 name; others are refused |
//! | 1 | 2 | port |
//! | 3 | 4 | kind 1: the IPv4 address |
//! | 3 | 16 | kind 2: the IPv6 address |
//! | 3 | 1 | kind 3: length L of the name, 1 to 254 |
//! | 4 | L | kind 3: the name, ASCII, lower case, no terminator |
//!
//! No bytes may follow. A name is valid if [`HostName`] takes it. A name that reads as an IP
//! address is sent as an address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

pub use hawser_types::{Host, HostName};
use hawser_types::{HostError, HostPortFault, HostPortParts, PortPart};
use hawser_wire::StreamKind;
use serde::{Deserialize, Serialize};

/// A host and a port to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

impl Destination {
    /// A destination from its two parts.
    pub const fn new(host: Host, port: u16) -> Self {
        Self { host, port }
    }

    /// Reads `host:port` or `host`, the latter with `default_port`. IPv6 addresses stand in
    /// brackets.
    ///
    /// # Errors
    /// The part at fault; [`DestinationError::Port`] when there is neither a port nor a default.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, DestinationError> {
        let parts = HostPortParts::parse(text)?;
        let port = match parts.port {
            PortPart::Number(port) => port,
            // RFC 3986 allows the colon without a port.
            PortPart::Absent | PortPart::Empty => default_port.ok_or(DestinationError::Port)?,
            PortPart::Ambiguous(_) => return Err(DestinationError::Address),
        };
        Ok(Self {
            host: parts.host,
            port,
        })
    }

    /// Appends the encoding to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match &self.host {
            Host::Ip(IpAddr::V4(_)) => StreamKind::ConnectV4,
            Host::Ip(IpAddr::V6(_)) => StreamKind::ConnectV6,
            Host::Name(_) => StreamKind::ConnectName,
        };
        out.push(kind.number());
        out.extend_from_slice(&self.port.to_be_bytes());
        match &self.host {
            Host::Ip(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
            Host::Ip(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
            Host::Name(name) => {
                let name = name.as_str().as_bytes();
                out.push(u8::try_from(name.len()).expect("a host name has at most 254 bytes"));
                out.extend_from_slice(name);
            }
        }
    }

    /// The encoding by itself.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_ENCODED_LENGTH);
        self.encode(&mut out);
        out
    }

    /// Reads an encoding, which must fill `bytes` exactly.
    ///
    /// # Errors
    /// The fault in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DestinationError> {
        let (&[kind, high, low], rest) = bytes
            .split_first_chunk()
            .ok_or(DestinationError::Truncated)?;
        let (host, rest) = match StreamKind::of_number(kind) {
            Some(StreamKind::ConnectV4) => {
                let (octets, rest) = rest
                    .split_first_chunk::<4>()
                    .ok_or(DestinationError::Truncated)?;
                (Host::Ip(Ipv4Addr::from(*octets).into()), rest)
            }
            Some(StreamKind::ConnectV6) => {
                let (octets, rest) = rest
                    .split_first_chunk::<16>()
                    .ok_or(DestinationError::Truncated)?;
                (Host::Ip(Ipv6Addr::from(*octets).into()), rest)
            }
            Some(StreamKind::ConnectName) => {
                let (&length, rest) = rest.split_first().ok_or(DestinationError::Truncated)?;
                let (name, rest) = rest
                    .split_at_checked(usize::from(length))
                    .ok_or(DestinationError::Truncated)?;
                match Host::from_name_bytes(name)? {
                    host @ Host::Name(_) => (host, rest),
                    Host::Ip(_) => return Err(DestinationError::Name),
                }
            }
            _ => return Err(DestinationError::UnknownKind(kind)),
        };
        match rest {
            [] => Ok(Self::new(host, u16::from_be_bytes([high, low]))),
            _ => Err(DestinationError::TrailingBytes(rest.len())),
        }
    }
}

impl From<SocketAddr> for Destination {
    fn from(address: SocketAddr) -> Self {
        Self::new(Host::Ip(address.ip()), address.port())
    }
}

impl fmt::Display for Destination {
    /// `name:port`, `192.0.2.1:port` or `[2001:db8::1]:port`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(text: &str) -> Result<Self, DestinationError> {
        Self::parse(text, None)
    }
}

/// The reason why text or bytes are not a destination.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DestinationError {
    /// The bytes end too early.
    #[error("destination is cut short")]
    Truncated,
    /// Bytes after the end of the destination.
    #[error("{0} bytes after the destination")]
    TrailingBytes(usize),
    /// A kind of host that this version does not know.
    #[error("unknown kind of host {0}")]
    UnknownKind(u8),
    /// Not a host name.
    #[error(
        "not a host name: labels of 1 to 63 letters, digits, - and _, 253 bytes at most, \
         the last label not a number"
    )]
    Name,
    /// Not an IPv6 address in brackets.
    #[error("not an IPv6 address in brackets")]
    Address,
    /// No port, or not one from 0 to 65535.
    #[error("port missing or not a number up to 65535")]
    Port,
}

impl From<HostPortFault<'_>> for DestinationError {
    fn from(fault: HostPortFault<'_>) -> Self {
        match fault {
            // Without brackets, several colons are an IPv6 address.
            HostPortFault::Host(part, _) if part.contains(':') => Self::Address,
            HostPortFault::Host(_, error) => error.into(),
            HostPortFault::Unclosed => Self::Address,
            HostPortFault::BehindBrackets | HostPortFault::Port(_) => Self::Port,
        }
    }
}

impl From<HostError> for DestinationError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Address => Self::Address,
            _ => Self::Name,
        }
    }
}

/// The longest encoding, in bytes.
const MAX_ENCODED_LENGTH: usize = 4 + HostName::MAX_LENGTH;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn destinations() -> impl Strategy<Value = Destination> {
        let hosts = prop_oneof![
            any::<Ipv4Addr>().prop_map(|address| Host::Ip(address.into())),
            any::<Ipv6Addr>().prop_map(|address| Host::Ip(address.into())),
            "[a-z][a-z0-9_-]{0,20}(\\.[a-z][a-z0-9]{0,10}){0,4}\\.?"
                .prop_map(|name| Host::Name(name.parse().unwrap())),
        ];
        (hosts, any::<u16>()).prop_map(|(host, port)| Destination::new(host, port))
    }

    proptest! {
        #[test]
        fn text_and_bytes_round_trip(destination in destinations()) {
            prop_assert_eq!(destination.to_string().parse(), Ok(destination.clone()));
            prop_assert_eq!(Destination::decode(&destination.to_bytes()), Ok(destination));
        }

        #[test]
        fn bytes_that_decode_are_the_only_encoding(
            bytes in prop::collection::vec(any::<u8>(), 0..300)
        ) {
            if let Ok(destination) = Destination::decode(&bytes) {
                let again = destination.to_bytes().to_ascii_lowercase();
                prop_assert_eq!(again, bytes.to_ascii_lowercase());
            }
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,64}") {
            if let Ok(destination) = text.parse::<Destination>() {
                prop_assert_eq!(destination.to_string().parse(), Ok(destination));
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let encoded = |text: &str| text.parse::<Destination>().unwrap().to_bytes();
        assert_eq!(encoded("192.0.2.7:443"), [1, 1, 0xbb, 192, 0, 2, 7]);
        assert_eq!(encoded("Example.ORG:80"), *b"\x03\x00\x50\x0bexample.org");
        let mut v6 = vec![2, 0x1f, 0x90, 0x20, 0x01, 0x0d, 0xb8];
        v6.extend([0; 11]);
        v6.push(1);
        assert_eq!(encoded("[2001:db8::1]:8080"), v6);
    }

    #[test]
    fn malformed_text_names_the_part_at_fault() {
        let error = |text: &str| text.parse::<Destination>().unwrap_err();
        assert_eq!(error("example.org"), DestinationError::Port);
        assert_eq!(error("example.org:70000"), DestinationError::Port);
        assert_eq!(error("example.org:+80"), DestinationError::Port);
        assert_eq!(error("2001:db8::1:80"), DestinationError::Address);
        assert_eq!(error("[2001:db8::zz]:80"), DestinationError::Address);
        assert_eq!(error("[::1]80"), DestinationError::Port);
        assert_eq!(error("a..b:80"), DestinationError::Name);
        assert_eq!(error("a b:80"), DestinationError::Name);
        assert_eq!(error(":80"), DestinationError::Name);
        assert_eq!(error("1.2.3.999:80"), DestinationError::Name);
        assert_eq!(
            error(&format!("{}:80", "a.".repeat(128))),
            DestinationError::Name
        );
    }

    #[test]
    fn malformed_bytes_name_the_fault() {
        assert_eq!(Destination::decode(&[]), Err(DestinationError::Truncated));
        assert_eq!(
            Destination::decode(&[9, 0, 80, 1]),
            Err(DestinationError::UnknownKind(9))
        );
        assert_eq!(
            Destination::decode(&[1, 0, 80, 1, 2, 3, 4, 5]),
            Err(DestinationError::TrailingBytes(1))
        );
        // The resolver would read it as 0.0.48.57.
        assert_eq!(
            Destination::decode(b"\x03\x00\x50\x0512345"),
            Err(DestinationError::Name)
        );
        assert_eq!(
            Destination::decode(b"\x03\x00\x50\x071.2.3.4"),
            Err(DestinationError::Name)
        );
        assert_eq!(
            Destination::decode(b"\x03\x00\x50\x00"),
            Err(DestinationError::Name)
        );
    }
}
