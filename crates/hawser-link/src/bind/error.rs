//! Why a connection over a link failed, and what to do about it.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::links::Link;

/// Why a connection failed. Each text says what to do, where something can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kernel does not let this process choose the link.
    #[error(
        "not permitted to bind to link {link}: needs Linux 5.7, else the capability CAP_NET_RAW \
         (setcap cap_net_raw+ep on the program, or run it as root)"
    )]
    NotPermitted {
        /// Name of the link.
        link: String,
    },
    /// The interface no longer exists.
    #[error("link {link} is gone")]
    LinkGone {
        /// Name of the link.
        link: String,
    },
    /// The link cannot reach any address of this family.
    #[error(
        "link {link} has no {family} address; give it one, or use an address of another family"
    )]
    NoAddress {
        /// Name of the link.
        link: String,
        /// Family of the remote address.
        family: Family,
    },
    /// The address was removed from the link since it was listed.
    #[error("link {link} has lost its address {address}")]
    AddressGone {
        /// Name of the link.
        link: String,
        /// The address.
        address: IpAddr,
    },
    /// A service holds the connection, or would, at a port that Hawser shares with it.
    #[error("{remote} is a port of a service, where Hawser accepts no connections now")]
    OfService {
        /// The destination.
        remote: SocketAddr,
    },
    /// No route, or a host on the way did not answer or reported an error.
    #[error("no route to {remote}{}", RouteRemedy(link))]
    NoRoute {
        /// The destination.
        remote: SocketAddr,
        /// Name of the link, and whether it has a default route for this family.
        link: Option<(String, bool)>,
    },
    /// The host answers, and no program listens on the port.
    #[error("{remote} refused the connection; is the gateway running, and is this its port?")]
    Refused {
        /// The destination.
        remote: SocketAddr,
    },
    /// No answer.
    #[error(
        "no answer from {remote}{} {}; a firewall may be in the way, or rp_filter on this host",
        OnLink(link),
        AfterTime(after)
    )]
    TimedOut {
        /// The destination.
        remote: SocketAddr,
        /// Name of the link.
        link: Option<String>,
        /// Time after which the attempt was given up; `None` when the kernel gave up first.
        after: Option<Duration>,
    },
    /// The relay that carries connections to the far end could not provide one.
    #[error("{0}")]
    Relay(io::Error),
    /// A packet filter on this host forbids the connection.
    #[error(
        "connecting to {remote}{} is forbidden by this host's packet filter",
        OnLink(link)
    )]
    Forbidden {
        /// The destination.
        remote: SocketAddr,
        /// Name of the link.
        link: Option<String>,
    },
    /// All local ports towards this remote address are taken.
    #[error(
        "no local port is free for {remote}{}; see net.ipv4.ip_local_port_range",
        OnLink(link)
    )]
    NoPort {
        /// The destination.
        remote: SocketAddr,
        /// Name of the link.
        link: Option<String>,
    },
    /// A congestion control that the kernel lacks, or does not allow to unprivileged processes.
    #[error(
        "congestion control {name} cannot be used here: {source}; without privilege these can: \
         {allowed} (net.ipv4.tcp_allowed_congestion_control)"
    )]
    Congestion {
        /// The requested congestion control.
        name: String,
        /// The allowed controls, separated by blanks.
        allowed: String,
        /// The system's answer.
        source: io::Error,
    },
    /// Anything else.
    #[error("cannot {action}: {source}")]
    System {
        /// The attempted operation.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl ConnectError {
    /// Returns whether the cause lies on this machine alone: no packet has left it.
    /// [`Self::NoRoute`] does not count: a router on the way may have sent that error.
    pub fn is_local(&self) -> bool {
        match self {
            Self::NotPermitted { .. }
            | Self::LinkGone { .. }
            | Self::NoAddress { .. }
            | Self::AddressGone { .. }
            | Self::Forbidden { .. }
            | Self::NoPort { .. }
            | Self::Congestion { .. } => true,
            Self::System { action, .. } => *action != CONNECT,
            Self::OfService { .. }
            | Self::NoRoute { .. }
            | Self::Refused { .. }
            | Self::TimedOut { .. }
            | Self::Relay(_) => false,
        }
    }

    pub(super) fn system(action: &'static str, source: io::Error) -> Self {
        Self::System { action, source }
    }

    /// `allowed`: the congestion controls that this process may choose.
    pub(super) fn congestion(name: &str, allowed: &[String], source: io::Error) -> Self {
        Self::Congestion {
            name: name.to_owned(),
            allowed: allowed.join(" "),
            source,
        }
    }

    pub(super) fn no_route(link: Option<&Link>, remote: SocketAddr) -> Self {
        Self::NoRoute {
            remote,
            link: link.map(|link| (link.name.clone(), link.has_default_route(remote.ip()))),
        }
    }

    pub(super) fn from_bind_to_interface(link: &Link, error: io::Error) -> Self {
        let link = link.name.clone();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { link },
            Some(libc::ENODEV | libc::ENXIO | libc::EINVAL) => Self::LinkGone { link },
            _ => Self::system("bind the socket to its link", error),
        }
    }

    pub(super) fn from_bind_to_address(link: &Link, address: IpAddr, error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL) => Self::AddressGone {
                link: link.name.clone(),
                address,
            },
            _ => Self::system("bind the socket to the link's address", error),
        }
    }

    pub(crate) fn from_connect(link: Option<&Link>, remote: SocketAddr, error: io::Error) -> Self {
        let name = link.map(|link| link.name.clone());
        match (error.raw_os_error(), name) {
            (Some(libc::ENETUNREACH | libc::EHOSTUNREACH), _) => Self::no_route(link, remote),
            (Some(libc::ECONNREFUSED), _) => Self::Refused { remote },
            (Some(libc::ETIMEDOUT), link) => Self::TimedOut {
                remote,
                link,
                after: None,
            },
            (Some(libc::EPERM | libc::EACCES), link) => Self::Forbidden { remote, link },
            (Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE), link) => Self::NoPort { remote, link },
            (Some(libc::ENODEV | libc::ENETDOWN), Some(link)) => Self::LinkGone { link },
            _ => Self::system(CONNECT, error),
        }
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::NotPermitted { .. } | ConnectError::Forbidden { .. } => {
                io::ErrorKind::PermissionDenied
            }
            ConnectError::LinkGone { .. } => io::ErrorKind::NetworkDown,
            ConnectError::NoAddress { .. }
            | ConnectError::AddressGone { .. }
            | ConnectError::NoPort { .. } => io::ErrorKind::AddrNotAvailable,
            ConnectError::NoRoute { .. } => io::ErrorKind::NetworkUnreachable,
            ConnectError::Refused { .. } | ConnectError::OfService { .. } => {
                io::ErrorKind::ConnectionRefused
            }
            ConnectError::TimedOut { .. } => io::ErrorKind::TimedOut,
            ConnectError::Congestion { source, .. }
            | ConnectError::System { source, .. }
            | ConnectError::Relay(source) => source.kind(),
        };
        Self::new(kind, error)
    }
}

impl From<IpAddr> for Family {
    fn from(address: IpAddr) -> Self {
        if address.is_ipv4() {
            Self::V4
        } else {
            Self::V6
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        })
    }
}

/// Action of a [`ConnectError::System`] where the kernel had begun to connect.
const CONNECT: &str = "connect";

struct OnLink<'a>(&'a Option<String>);

impl fmt::Display for OnLink<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(link) => write!(f, " on link {link}"),
            None => Ok(()),
        }
    }
}

struct AfterTime<'a>(&'a Option<Duration>);

impl fmt::Display for AfterTime<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => write!(f, "within {time:?}"),
            None => f.write_str("before the kernel gave up"),
        }
    }
}

struct RouteRemedy<'a>(&'a Option<(String, bool)>);

impl fmt::Display for RouteRemedy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((link, true)) => write!(f, " on link {link}: no host on the link answers for it"),
            Some((link, false)) => {
                write!(f, " on link {link}, which has no default route; add one: ")?;
                write!(f, "ip route add default via ROUTER dev {link} metric 1000")
            }
            None => Ok(()),
        }
    }
}
