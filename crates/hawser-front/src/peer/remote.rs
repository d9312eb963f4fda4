use std::net::IpAddr;
use std::os::fd::{AsFd as _, BorrowedFd};

use tokio::net::TcpStream;

use crate::connection::{Counted, Observe};

/// A connection that knows where it ended up.
pub trait Remote {
    /// The address that it goes to over a link; `None` where it goes as the system has it, to this
    /// machine or to a network that one link alone leads to.
    fn remote(&self) -> Option<IpAddr>;

    /// Its socket.
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
