use std::net::IpAddr;

use tokio::net::TcpStream;

use crate::connection::{Counted, Observe};
use crate::either::EitherStream;

/// A connection that knows where it ended up.
pub trait Remote {
    /// The address that it goes to over a link; `None` where it goes as the system has it, to this
    /// machine or to a network that one link alone leads to, and where it goes by a gateway.
    fn remote(&self) -> Option<IpAddr>;
}

impl Remote for TcpStream {
    fn remote(&self) -> Option<IpAddr> {
        Some(self.peer_addr().ok()?.ip())
    }
}

impl<S: Remote + Observe> Remote for Counted<S> {
    fn remote(&self) -> Option<IpAddr> {
        self.flow()?;
        self.get_ref().remote()
    }
}

impl<D: Remote, B> Remote for EitherStream<D, B> {
    fn remote(&self) -> Option<IpAddr> {
        match self {
            Self::Direct(stream) => stream.remote(),
            // Only the far end of the session knows the address.
            Self::Bonded(_) => None,
        }
    }
}
