//! Via: the path of a request, which its response takes back (RFC 3261 §20.42, RFC 3581).

use std::fmt;
use std::net::IpAddr;

use hawser_types::Host;

use super::Field;
use crate::cursor::{Cursor, SyntaxFault};
use crate::params::Params;
use crate::uri::{SipUri, port_number, read_host};

/// One hop of a request's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    /// Transport of the request.
    pub transport: Transport,
    /// Sending host, as that host knows itself.
    pub host: Host,
    /// Port at which the host expects the response; `None` is the transport's default.
    pub port: Option<u16>,
    /// Parameters: `branch`, `received`, `rport` and others.
    pub params: Params,
}

/// Transport of messages.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
    /// A stream in TLS.
    Tls,
    /// Another transport, in upper case.
    Other(String),
}

impl Via {
    /// Creates a hop without parameters.
    #[must_use]
    pub fn new(transport: Transport, host: Host, port: Option<u16>) -> Self {
        Self {
            transport,
            host,
            port,
            params: Params::default(),
        }
    }

    /// Returns the branch, which identifies the transaction.
    #[must_use]
    pub fn branch(&self) -> Option<&str> {
        self.params.value("branch")
    }

    /// Records the actual source of a request (RFC 3261 §18.2.1, RFC 3581 §4), so that its response
    /// gets there through NAT.
    pub fn set_source(&mut self, address: IpAddr, port: u16) {
        let address = address.to_canonical();
        let wants_port = self.params.contains("rport");
        if wants_port || self.host != Host::Ip(address) {
            self.params.set("received", &address.to_string());
        }
        if wants_port {
            self.params.set("rport", &port.to_string());
        }
    }

    /// Returns the destination of a response by this hop (RFC 3261 §18.2.2, RFC 3581 §4): the
    /// recorded source, else the hop's own address.
    #[must_use]
    pub fn answer_address(&self) -> (Host, u16) {
        let received = self.params.value("received");
        // An IPv6 address occurs with brackets or without (RFC 3261 §25.1, RFC 5118 §4.5).
        let host = received.and_then(|text| text.parse::<Host>().ok());
        let rport = self.params.value("rport");
        let port = rport.and_then(|text| text.parse().ok()).or(self.port);
        let host = host.unwrap_or_else(|| self.host.clone());
        (host, port.unwrap_or_else(|| self.transport.default_port()))
    }
}

impl Transport {
    /// Whether the transport retransmits by itself, so that transactions need not.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        *self != Self::Udp
    }

    /// Returns the default port of the transport.
    #[must_use]
    pub fn default_port(&self) -> u16 {
        match self {
            Self::Tls => 5061,
            _ => 5060,
        }
    }

    /// Returns the transport of a URI (RFC 3261 §19.1.2): datagrams, unless it names another one.
    #[must_use]
    pub fn to_uri(uri: &SipUri) -> Self {
        match uri.param("transport") {
            _ if uri.is_secure => Self::Tls,
            None => Self::Udp,
            Some(name) => Self::named(name),
        }
    }

    fn named(name: &str) -> Self {
        match name.to_ascii_uppercase() {
            name if name == "UDP" => Self::Udp,
            name if name == "TCP" => Self::Tcp,
            name if name == "TLS" => Self::Tls,
            name => Self::Other(name),
        }
    }
}

impl Field for Via {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, SyntaxFault> {
        let protocol = cursor.token("SIP/2.0")?;
        let slash = cursor.eat('/');
        let version = cursor.token("SIP/2.0")?;
        let is_right = slash && protocol.eq_ignore_ascii_case("SIP") && version == "2.0";
        if !is_right || !cursor.eat('/') {
            return Err(SyntaxFault::Expected("SIP/2.0"));
        }
        let transport = Transport::named(cursor.token("a transport")?);
        let before = cursor.rest();
        cursor.skip_space();
        if before == cursor.rest() {
            return Err(SyntaxFault::Expected("a space behind the transport"));
        }
        let host = read_host(cursor)?;
        let port = if cursor.eat(':') {
            Some(port_number(cursor)?)
        } else {
            None
        };
        let params = Params::read(cursor)?;
        check_params(&params)?;
        Ok(Self {
            transport,
            host,
            port,
            params,
        })
    }
}

/// Checks the parameters that responses depend on.
fn check_params(params: &Params) -> Result<(), SyntaxFault> {
    if params.value("branch").is_some_and(str::is_empty) {
        return Err(SyntaxFault::Expected("the value of branch"));
    }
    if let Some(received) = params.value("received") {
        let is_address = matches!(received.parse::<Host>(), Ok(Host::Ip(_)));
        if !is_address {
            return Err(SyntaxFault::Expected("an address as received"));
        }
    }
    match params.value("rport") {
        None | Some("") => Ok(()),
        Some(text) => {
            let mut cursor = Cursor::new(text);
            port_number(&mut cursor)?;
            cursor.end()
        }
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SIP/2.0/{} {}", self.transport, self.host)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        self.params.fmt(f)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Other(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_is_read_with_spaces_wherever_they_may_stand() {
        let text = "SIP  / 2.0  /  TCP   192.0.2.2 : 5061 ; branch = z9hG4bK1 ;rport";
        let via = Via::parse(text).unwrap();
        assert_eq!(
            via.to_string(),
            "SIP/2.0/TCP 192.0.2.2:5061;branch=z9hG4bK1;rport"
        );
        assert_eq!(via.branch(), Some("z9hG4bK1"));
        let via = Via::parse("SIP/2.0/udp [2001:db8::9]:5060;received=2001:db8::1").unwrap();
        assert_eq!(via.transport, Transport::Udp);
        assert_eq!(Via::parse(&via.to_string()).unwrap(), via);
    }

    #[test]
    fn what_is_no_hop_is_refused() {
        for text in [
            "",
            "SIP/2.0/UDP",
            "SIP/2.0 UDP h",
            "SIP/3.0/UDP h",
            "HTTP/2.0/UDP h",
            "SIP/2.0/UDPh",
            "SIP/2.0/UDP h:0x1",
            "SIP/2.0/UDP h;branch=",
            "SIP/2.0/UDP h;branch",
            "SIP/2.0/UDP h;rport=70000",
            "SIP/2.0/UDP h;rport=x",
            "SIP/2.0/UDP h;received=example",
            "SIP/2.0/UDP 192.0.2.15;;,;,,",
        ] {
            assert!(Via::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_answer_goes_where_the_request_came_from() {
        let address = "198.51.100.1".parse().unwrap();
        let mut via = Via::parse("SIP/2.0/UDP h.example:5070;rport;branch=z9hG4bK1").unwrap();
        via.set_source(address, 40000);
        assert_eq!(via.answer_address(), (Host::Ip(address), 40000));
        let mut via = Via::parse("SIP/2.0/UDP h.example:5070").unwrap();
        via.set_source(address, 40000);
        assert_eq!(via.answer_address(), (Host::Ip(address), 5070));
        let mut via = Via::parse("SIP/2.0/TLS 198.51.100.1").unwrap();
        via.set_source(address, 40000);
        assert_eq!(via.to_string(), "SIP/2.0/TLS 198.51.100.1");
        assert_eq!(via.answer_address(), (Host::Ip(address), 5061));
        let six = "2001:db8::1".parse().unwrap();
        via.set_source(six, 1);
        assert_eq!(via.answer_address(), (Host::Ip(six), 5061));
        assert_eq!(Via::parse(&via.to_string()).unwrap(), via);
    }
}
