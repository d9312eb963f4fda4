//! A port of the far end's that a service has as well.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An address where the far end takes connections whose handshakes have asked for it, and a service
/// all others. Source: BATCP §3.1.
#[derive(Clone)]
pub struct SharedPort {
    /// The address.
    pub at: SocketAddr,
    /// Whether the far end has a connection, by the handshake of its socket. To be asked once.
    pub has_taken: Arc<HasTaken>,
}

/// As [`SharedPort::has_taken`].
pub type HasTaken = dyn Fn(BorrowedFd<'_>) -> bool + Send + Sync;

impl fmt::Debug for SharedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedPort").field(&self.at).finish()
    }
}
