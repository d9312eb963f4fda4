//! The state of a directory, as others see it.

use std::net::SocketAddr;
use std::time::Duration;

/// Addresses at which a directory listens, with the real ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// For datagrams and streams.
    pub listen: Vec<SocketAddr>,
    /// For streams in TLS.
    pub tls: Vec<SocketAddr>,
}

/// The state of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryView {
    /// Number of known users.
    pub users: usize,
    /// Number of addresses of record that have bindings.
    pub addresses: usize,
    /// Number of bindings of all addresses.
    pub bindings: usize,
    /// Number of open connections.
    pub connections: usize,
    /// The first bindings, in the order of their addresses.
    pub listed: Vec<BindingView>,
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// The address of record.
    pub address: String,
    /// The contact.
    pub contact: String,
    /// The contact's preference, in thousandths.
    pub q: u16,
    /// Remaining time until the binding expires.
    pub left: Duration,
    /// Time since the binding was set.
    pub age: Duration,
}
