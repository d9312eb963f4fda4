//! A way to the far end that is not a link: connections that another session carries there, through
//! a gateway that both ends know.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use futures_util::future::BoxFuture;
use hawser_session::RELAY_LINK;
use hawser_types::link::{Link, LinkKind};
use tokio::net::TcpStream;

/// Carries connections to the far end.
pub trait Relay: fmt::Debug + Send + Sync + 'static {
    /// Opens a connection to the port where the far end accepts sessions.
    fn connect(&self) -> BoxFuture<'_, io::Result<TcpStream>>;
}

/// Stands for the relay among the links of a session.
pub(super) fn as_link() -> Link {
    Link {
        kind: LinkKind::Tunnel,
        ..Link::new(RELAY_LINK, "relay")
    }
}

/// Stands for the far end's address, which only the relay knows.
pub(super) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
