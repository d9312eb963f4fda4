use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};

use hawser_link::bind::{Carries, SocketOptions, connect_on_link};
use hawser_link::links::{Link, Routes};
use tokio::net::TcpStream;

use super::counted::Observe;
use crate::near::Surroundings;
use crate::transport::ByteStream;

/// Makes connections over given links.
///
/// Near destinations (see [`Surroundings`]) must be reached by the system's routes.
pub trait Via: Surroundings {
    /// The type of a connection.
    type Stream: ByteStream + Observe;

    /// Connects to `address` over `link`, or by the system's routes if that is `None`. Dropping the
    /// future gives the attempt up.
    fn connect(
        &self,
        link: Option<&Link>,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// As [`Self::connect`], with a handshake that asks the far end for a bond, if possible.
    fn connect_asking(
        &self,
        link: &Link,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::Stream>> + Send {
        self.connect(Some(link), address)
    }
}

/// TCP connections, bound to their links.
#[derive(Debug)]
pub struct TcpVia {
    options: SocketOptions,
    routes: Routes,
}

impl TcpVia {
    /// Creates connections that offer Multipath TCP, or do not.
    pub fn new(mptcp: bool) -> Self {
        Self::with(SocketOptions {
            mptcp,
            carries: Carries::OfProgram,
            ..SocketOptions::default()
        })
    }

    /// Creates this host's own connections, which belong to no application.
    pub fn for_own() -> Self {
        Self::with(SocketOptions::default())
    }

    fn with(options: SocketOptions) -> Self {
        Self {
            options,
            routes: Routes::default(),
        }
    }
}

impl Via for TcpVia {
    type Stream = TcpStream;

    async fn connect(&self, link: Option<&Link>, address: SocketAddr) -> io::Result<TcpStream> {
        Ok(connect_on_link(link, address, &self.options).await?)
    }

    async fn connect_asking(&self, link: &Link, address: SocketAddr) -> io::Result<TcpStream> {
        let options = SocketOptions {
            carries: Carries::AsksBond,
            ..self.options.clone()
        };
        match connect_on_link(Some(link), address, &options).await {
            Ok(stream) => Ok(stream),
            Err(error) => match io::Error::from(error) {
                // Hawser at the far end has answered with a SYN cookie, and the service does not
                // know the cookie.
                error if error.kind() == io::ErrorKind::ConnectionReset => {
                    self.connect(Some(link), address).await
                }
                error => Err(error),
            },
        }
    }
}

impl Surroundings for TcpVia {
    async fn is_near(&self, address: IpAddr) -> bool {
        self.routes.is_near(address).await
    }
}
