use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use tokio::net::TcpStream;

use crate::connection::{Counted, Observe};

/// A connection that knows its remote address.
pub trait Remote {
    /// Returns the address to which the connection goes over a link; `None` if the connection
    /// follows the system's routes: to this machine, or to a network to which only one link leads.
    fn remote(&self) -> Option<IpAddr>;

    /// Returns the connection's socket.
    fn socket(&self) -> BorrowedFd<'_>;
}

impl Remote for TcpStream {
    fn remote(&self) -> Option<IpAddr> {
        Some(self.peer_addr().ok()?.ip())
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

impl<S: Remote + Observe> Remote for Counted<S> {
    fn remote(&self) -> Option<IpAddr> {
        self.flow()?;
        self.get_ref().remote()
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.get_ref().socket()
    }
}
