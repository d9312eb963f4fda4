use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use crate::address::read_listen;
use crate::document::{Key, key};

/// Services of this machine that a gateway offers to hosts that have not enrolled, in `[serve]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrontConfig {
    /// `front`: ports of this machine that such hosts reach over all links. Empty by default.
    pub ports: Vec<FrontPort>,
    /// `front-listen`: address for such hosts, apart from that of clients. Default `[::]:745`.
    pub listen: SocketAddr,
    /// `front-pin`: time for which they keep this machine's key. Default 7 days, at most 30.
    pub pin: Duration,
}

/// A port of this machine that hosts reach without having enrolled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontPort {
    /// The port, as they name it.
    pub port: u16,
    /// The port at which its service takes the PROXY protocol; none where the service is shown the
    /// client's address as the source of the connection.
    pub proxy_protocol: Option<u16>,
}

impl FromStr for FrontPort {
    type Err = UnknownFrontPort;

    fn from_str(text: &str) -> Result<Self, UnknownFrontPort> {
        let (port, way) = match text.split_once(':') {
            Some((port, way)) => (read_port(port)?, Some(way)),
            None => (read_port(text)?, None),
        };
        let proxy_protocol = match way {
            None => None,
            Some("proxy") => Some(port),
            Some(way) => {
                let at = way.strip_prefix("proxy=").ok_or(UnknownFrontPort)?;
                Some(read_port(at)?)
            }
        };
        Ok(Self {
            port,
            proxy_protocol,
        })
    }
}

fn read_port(text: &str) -> Result<u16, UnknownFrontPort> {
    let port = text.parse().ok().filter(|port| *port != 0);
    // "+443" is a number to the parser.
    port.filter(|_| text.bytes().all(|it| it.is_ascii_digit()))
        .ok_or(UnknownFrontPort)
}

impl fmt::Display for FrontPort {
    /// `443`, `443:proxy` or `443:proxy=8443`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.proxy_protocol {
            None => write!(f, "{}", self.port),
            Some(at) if at == self.port => write!(f, "{}:proxy", self.port),
            Some(at) => write!(f, "{}:proxy={at}", self.port),
        }
    }
}

/// A text that is no [`FrontPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a port such as 443, or 443:proxy=8443 where its service takes the PROXY protocol"
)]
pub struct UnknownFrontPort;

impl Default for FrontConfig {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            listen: SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), DEFAULT_FRONT_PORT),
            pin: DEFAULT_PIN,
        }
    }
}

impl FrontConfig {
    /// The keys of it, beside others in the section.
    pub(crate) fn keys(&mut self) -> [Key<'_>; 3] {
        let listed = "a list of ports such as [\"443\", \"22\", \"80:proxy=8080\"]";
        [
            key("front", &mut self.ports, move |f| {
                f.list(listed, |f| f.parse(listed))
            }),
            key("front-listen", &mut self.listen, read_listen),
            key("front-pin", &mut self.pin, |f| {
                f.duration(MIN_PIN..=MAX_PIN, "a time from 1min to 30d, such as \"7d\"")
            }),
        ]
    }

    /// Why these ports can't be fronted together: one is named twice, or is Hawser's own, where
    /// clients have `clients`; or one that takes the PROXY protocol is open to strangers as it is,
    /// who could then claim any address.
    pub fn problem(&self, clients: SocketAddr) -> Option<String> {
        let mut ports: Vec<u16> = self.ports.iter().map(|it| it.port).collect();
        ports.sort_unstable();
        if let Some(twice) = ports.windows(2).find(|it| it[0] == it[1]) {
            return Some(format!("port {} is named twice", twice[0]));
        }
        let named = self.ports.iter().map(|it| it.port);
        let mut named = named.chain(self.ports.iter().filter_map(|it| it.proxy_protocol));
        let own = [clients.port(), self.listen.port()];
        if let Some(own) = named.find(|port| own.contains(port)) {
            return Some(format!("port {own} is Hawser's own"));
        }
        let mut behind = self.ports.iter().filter_map(|it| it.proxy_protocol);
        let is_open = |at: &u16| {
            let mut open = self.ports.iter();
            open.any(|it| it.port == *at && it.proxy_protocol != Some(*at))
        };
        let open = behind.find(is_open)?;
        Some(format!(
            "port {open} takes the PROXY protocol, by which strangers there could claim any address"
        ))
    }
}

/// Default port of a gateway for hosts that have not enrolled: their connections displace no
/// client's. IANA has it unassigned. Below 1024 no program without rights can listen there, and so
/// be taken for the services of the whole machine.
pub const DEFAULT_FRONT_PORT: u16 = 745;
const DEFAULT_PIN: Duration = Duration::from_secs(7 * 86_400);
const MIN_PIN: Duration = Duration::from_secs(60);
const MAX_PIN: Duration = Duration::from_secs(30 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_host_reaches_a_port_where_any_address_can_be_claimed() {
        let problem = |ports: &str| {
            let ports = ports.split(' ').map(|it| it.parse().unwrap()).collect();
            let config = FrontConfig {
                ports,
                ..FrontConfig::default()
            };
            let clients = SocketAddr::from(([0, 0, 0, 0], 7443));
            config.problem(clients).unwrap_or_default()
        };
        assert_eq!(problem("443 22 80:proxy=8080 81:proxy"), "");
        assert!(problem("443 22 443:proxy").contains("443 is named twice"));
        assert!(problem("8080 80:proxy=8080").contains("port 8080 takes"));
        assert!(problem("81:proxy=82 82:proxy=83").contains("port 82 takes"));
        for own in ["7443", "745", "22 443:proxy=7443", "745:proxy=8443"] {
            assert!(problem(own).ends_with("is Hawser's own"), "{own}");
        }
    }

    #[test]
    fn ports_are_read_as_they_are_shown() {
        for text in ["443", "22:proxy", "65535:proxy=1"] {
            assert_eq!(text.parse::<FrontPort>().unwrap().to_string(), text);
        }
        assert_eq!(
            "80:proxy=80".parse::<FrontPort>().unwrap().to_string(),
            "80:proxy"
        );
        for wrong in [
            "",
            "0",
            "65536",
            "+443",
            "443:",
            "443:prox",
            "443:proxy=",
            "443:proxy=0",
            " 443",
            "443:proxy=1:2",
            "https",
        ] {
            assert_eq!(wrong.parse::<FrontPort>(), Err(UnknownFrontPort), "{wrong}");
        }
    }
}
