//! How connections go to servers that were discovered.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::transport::DialError;

/// A connection that goes over a session with a server.
pub struct Discovered<'a, S> {
    /// The server's address and port.
    pub at: SocketAddr,
    /// It may go no other way.
    pub is_only_way: bool,
    /// Time before it is tried over a link as well.
    pub head_start: Duration,
    /// Opens the stream.
    pub dialing: BoxFuture<'a, Result<S, DialError>>,
}

/// What a server has said to a handshake that asked for a bond.
pub enum BondAnswer<'a, S> {
    /// Nothing that is known: the connection is an ordinary one.
    None,
    /// That it has Hawser and can have no bond now. With SYN cookies in force such a connection may
    /// be nobody's there.
    Refused,
    /// Its Hawser has the connection, and this is how it goes on.
    Taken(Discovered<'a, S>),
}
