//! A port of the far end's that a service has as well.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// An address where the far end takes connections whose handshakes have asked for it, and a service
/// all others. Source: BATCP §3.1.
pub trait SharedPort: fmt::Debug + Send + Sync + 'static {
    /// The address.
    fn at(&self) -> SocketAddr;

    /// Whether a handshake may ask now: each in vain costs the service a connection that says
    /// nothing.
    fn may_ask(&self) -> bool;

    /// Whether the far end has the connection of a socket whose handshake has asked. To be called
    /// once for each.
    fn has_taken(&self, socket: BorrowedFd<'_>) -> bool;
}
