use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Known properties of a new connection. A property that is `None` matches no condition on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Address of the destination; `None` while only its name is known.
    pub remote: Option<IpAddr>,
    /// Port of the destination.
    pub port: u16,
    /// Name of the destination, as the application gave it.
    pub domain: Option<&'a str>,
    /// Name of the process in the kernel (`comm`): at most 15 bytes.
    pub program: Option<&'a str>,
    /// The path of the program's file.
    pub executable: Option<&'a str>,
    /// Numeric id of its user.
    pub user: Option<u32>,
    /// Its control group, from the root of the hierarchy: `/user.slice/…`.
    pub cgroup: Option<&'a str>,
    /// DSCP of its packets, 0 to 63.
    ///
    /// Source: RFC 2474.
    pub dscp: Option<u8>,
}

impl Facts<'_> {
    /// Creates the facts of a connection of which only the destination is known.
    pub const fn to(protocol: Protocol, remote: Option<IpAddr>, port: u16) -> Self {
        Self {
            protocol,
            remote,
            port,
            domain: None,
            program: None,
            executable: None,
            user: None,
            cgroup: None,
            dscp: None,
        }
    }
}

/// Transport protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Protocol {
    /// Streams.
    #[default]
    Tcp,
    /// Datagrams; those between the same two sockets count as one connection.
    Udp,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Returns its name in rules and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
        let mut all = Self::ALL.into_iter();
        all.find(|protocol| protocol.name() == name)
            .ok_or_else(|| UnknownProtocol(name.to_owned()))
    }
}

/// Not the name of a protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol `{0}`: allowed are tcp udp")]
pub struct UnknownProtocol(String);
