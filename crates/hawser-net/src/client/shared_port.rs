//! A port that the far end shares with a service.

use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// An address where the far end accepts connections whose TCP handshakes ask for Hawser, and a
/// service accepts all others. Source: BATCP §3.1.
pub trait SharedPort: fmt::Debug + Send + Sync + 'static {
    /// The address.
    fn at(&self) -> SocketAddr;

    /// True if a handshake may ask for Hawser now: each vain attempt costs the service a connection
    /// without data.
    fn may_ask(&self) -> bool;

    /// True if the far end has accepted the connection of a socket whose handshake has asked for
    /// Hawser. Must be called once for each socket.
    fn has_taken(&self, socket: BorrowedFd<'_>) -> bool;
}
