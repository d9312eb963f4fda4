use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hawser_types::{Host, HostPortParts, PortPart};
use ipnet::IpNet;

use crate::ConfigError;
use crate::document::Field;

/// A host to connect to, with an optional port: `gw.example`, `gw.example:7443`, `203.0.113.5`,
/// `[2001:db8::1]:7443`, `2001:db8::1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    host: Host,
    port: Option<u16>,
}

impl HostPort {
    /// Returns the name or the address.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the port, if given.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the address, if the host is not a name.
    pub fn ip(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Ip(address) => Some(*address),
            Host::Name(_) => None,
        }
    }
}

/// Reads an address to listen at; port 0 lets the system choose.
pub(crate) fn read_listen(field: &Field<'_>) -> Result<SocketAddr, ConfigError> {
    field.parse("an address and a port such as \"127.0.0.1:1080\" or \"[::]:7443\"")
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> Self {
        Self {
            host: Host::Ip(address.ip()),
            port: Some(address.port()),
        }
    }
}

impl fmt::Display for HostPort {
    /// In the form that [`FromStr`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => self.host.fmt(f),
        }
    }
}

impl FromStr for HostPort {
    type Err = HostPortError;

    fn from_str(text: &str) -> Result<Self, HostPortError> {
        let wrong = || HostPortError(text.chars().take(MAX_SHOWN).collect());
        let parts = HostPortParts::parse(text).map_err(|_| wrong())?;
        if matches!(&parts.host, Host::Name(name) if name.has_hyphen_at_edge()) {
            return Err(wrong());
        }
        let port = match parts.port {
            PortPart::Absent | PortPart::Ambiguous(_) => None,
            // Nothing can be connected to at port 0.
            PortPart::Empty | PortPart::Number(0) => return Err(wrong()),
            PortPart::Number(port) => Some(port),
        };
        Ok(Self {
            host: parts.host,
            port,
        })
    }
}

/// A text that is not `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no HOST[:PORT]: a name, an IPv4 address or an IPv6 address in brackets")]
pub struct HostPortError(String);

/// Reads a network such as `192.168.7.0/24` or `fd00::/8`; a single address is a network of one.
///
/// Bits behind the prefix must be zero; otherwise the address or the length is wrong.
pub fn read_network(text: &str) -> Option<IpNet> {
    let network = text.parse().ok();
    let network = network.or_else(|| text.parse().ok().map(|ip: IpAddr| IpNet::from(ip)))?;
    (network == network.trunc()).then_some(network)
}

/// Reads a list of networks.
pub(crate) fn read_networks(field: &Field<'_>) -> Result<Vec<IpNet>, ConfigError> {
    let allowed = "a list of networks such as \"192.168.7.0/24\" or \"fd00::/8\"";
    field.list(allowed, |network| network.parse_with(read_network, allowed))
}

/// Characters of a wrong text in its error: the longest name of the DNS.
const MAX_SHOWN: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<u16>)> {
        let parsed = text.parse::<HostPort>().ok()?;
        Some((parsed.host.to_string(), parsed.port))
    }

    #[test]
    fn reads_names_and_addresses_with_and_without_port() {
        for (text, host, port) in [
            ("gw.example", "gw.example", None),
            ("gw.example:7443", "gw.example", Some(7443)),
            ("203.0.113.5:1", "203.0.113.5", Some(1)),
            ("2001:db8::1", "[2001:db8::1]", None),
            ("[2001:db8::1]", "[2001:db8::1]", None),
            ("[2001:db8::1]:7443", "[2001:db8::1]", Some(7443)),
        ] {
            assert_eq!(read(text), Some((host.to_owned(), port)), "{text}");
        }
    }

    #[test]
    fn refuses_addresses_that_no_peer_could_connect_to() {
        for text in [
            "",
            ":7443",
            "gw:",
            "gw:0",
            "gw:+5",
            "gw:70000",
            "-gw",
            "a b",
            "gw/path",
            "256.1.1.1",
            "[gw]:1",
            "[::1",
            "[::1]7",
            "a..b",
            "1.2.3",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(&"a".repeat(64)), None);
    }

    #[test]
    fn a_network_has_nothing_behind_its_prefix() {
        let read = |text| read_network(text).map(|network| network.to_string());
        assert_eq!(read("10.0.0.0/8").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(read("10.1.2.3").as_deref(), Some("10.1.2.3/32"));
        assert_eq!(read("fd00::1").as_deref(), Some("fd00::1/128"));
        for text in ["10.1.2.3/8", "10/8", "10.0.0.0/33", "localhost", ""] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_shown_reads_back(
            text in ".{0,40}|[a-z]{1,5}(:[0-9]{1,5})?|\\[[0-9a-f:]{2,9}\\](:[0-9]{1,5})?",
        ) {
            if let Ok(parsed) = text.parse::<HostPort>() {
                proptest::prop_assert_eq!(parsed.to_string().parse(), Ok(parsed));
            }
        }
    }
}
