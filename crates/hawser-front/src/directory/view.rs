//! What others see of a directory.

use std::net::SocketAddr;
use std::time::Duration;

/// Where it listens, with the real ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// For datagrams and streams.
    pub listen: Vec<SocketAddr>,
    /// For streams in TLS.
    pub tls: Vec<SocketAddr>,
}

/// What a directory is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectoryView {
    /// Users that it knows.
    pub users: usize,
    /// Addresses of record that have bindings.
    pub addresses: usize,
    /// Bindings of all of them.
    pub bindings: usize,
    /// Connections that are open.
    pub connections: usize,
    /// The first bindings, by the names of their addresses.
    pub listed: Vec<BindingView>,
}

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingView {
    /// The address of record.
    pub address: String,
    /// The contact.
    pub contact: String,
    /// Its preference, in thousandths.
    pub q: u16,
    /// The time that is left.
    pub left: Duration,
    /// Time since it was set.
    pub age: Duration,
}
