//! How connections go to servers that were discovered.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::transport::DialError;

/// A connection that goes over a session with a server.
pub struct Discovered<'a, S> {
    /// The server's address and port.
    pub at: SocketAddr,
    /// Whether the connection may go no other way.
    pub is_only_way: bool,
    /// Time before a link is tried as well.
    pub head_start: Duration,
    /// Opens the stream.
    pub dialing: BoxFuture<'a, Result<S, DialError>>,
}

/// The server's answer to a handshake that asked for a bond.
pub enum BondAnswer<'a, S> {
    /// No answer is known: the connection is an ordinary one.
    None,
    /// The server has Hawser and refuses a bond now. With SYN cookies in force, no process on the
    /// server may hold such a connection.
    Refused,
    /// The server's Hawser holds the connection, which continues in this way.
    Taken(Discovered<'a, S>),
}
