//! The directory of a gateway.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The SIP registrar and proxy of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DirectoryStatus {
    /// The domains that it is for.
    pub domains: Vec<String>,
    /// Addresses at which it takes datagrams and TCP.
    pub listen: Vec<SocketAddr>,
    /// Addresses at which it takes TLS.
    #[serde(default)]
    pub tls_listen: Vec<SocketAddr>,
    /// Users that it knows.
    pub user_count: u64,
    /// Users who are registered.
    pub address_count: u64,
    /// Contacts of all of them.
    pub binding_count: u64,
    /// Connections that are open.
    pub connection_count: u64,
    /// The first bindings, by the names of their users.
    pub bindings: Vec<BindingStatus>,
}

/// Where one user can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BindingStatus {
    /// The user's address of record, such as `sip:alice@example.org`.
    pub address: String,
    /// The contact.
    pub contact: String,
    /// Its preference, in thousandths.
    pub preference: u16,
    /// Time after which it ends unless it is refreshed.
    #[serde(rename = "left_ms", with = "crate::units::milliseconds")]
    pub left: Duration,
    /// Time since it was set.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
}
