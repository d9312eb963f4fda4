use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// What is known of a connection as it begins. What is `None` matches no rule that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// What it speaks.
    pub protocol: Protocol,
    /// The address it goes to; `None` while only its name is known.
    pub remote: Option<IpAddr>,
    /// The port it goes to.
    pub port: u16,
    /// The name it goes to, as the application said it.
    pub domain: Option<&'a str>,
    /// The process's name as the kernel has it (`comm`): at most 15 bytes.
    pub program: Option<&'a str>,
    /// The path of the program's file.
    pub executable: Option<&'a str>,
    /// Who runs it: the numeric user id.
    pub user: Option<u32>,
    /// Its control group, from the root of the hierarchy: `/user.slice/…`.
    pub cgroup: Option<&'a str>,
    /// The code point that its packets are marked with, 0 to 63.
    ///
    /// Source: RFC 2474.
    pub dscp: Option<u8>,
}

impl Facts<'_> {
    /// Nothing is known but where it goes.
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

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Protocol {
    /// Streams.
    #[default]
    Tcp,
    /// Datagrams; those between the same two sockets count as one connection.
    Udp,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Self; 2] = [Self::Tcp, Self::Udp];

    /// The word for it in rules and reports.
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

/// No protocol has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol `{0}`: allowed are tcp udp")]
pub struct UnknownProtocol(String);
