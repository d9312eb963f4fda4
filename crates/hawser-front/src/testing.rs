//! A dialer for unit tests.

use tokio::net::TcpStream;

use crate::connect::{ConnectOptions, connect_any, connect_tcp};
use crate::destination::Destination;
use crate::resolve::{SystemResolver, addresses_of};
use crate::transport::{DialError, Dialer};

/// Resolves names with the system's resolver, and connects as its routes have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectDialer;

impl Dialer for DirectDialer {
    type Stream = TcpStream;

    async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
        let addresses = addresses_of(&SystemResolver::new(), &destination.host).await?;
        let options = ConnectOptions::default();
        connect_any(&connect_tcp, &addresses, destination.port, &options).await
    }
}
