//! The directory of a gateway.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The SIP registrar and proxy of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DirectoryStatus {
    /// Domains that it serves.
    pub domains: Vec<String>,
    /// Addresses at which it accepts datagrams and TCP.
    pub listen: Vec<SocketAddr>,
    /// Addresses at which it accepts TLS.
    #[serde(default)]
    pub tls_listen: Vec<SocketAddr>,
    /// Known users.
    pub user_count: u64,
    /// Registered users.
    pub address_count: u64,
    /// Contacts of all registered users.
    pub binding_count: u64,
    /// Open connections.
    pub connection_count: u64,
    /// The first bindings, by the names of their users.
    pub bindings: Vec<BindingStatus>,
}

/// A contact of one user.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BindingStatus {
    /// The user's address of record, such as `sip:alice@example.org`.
    pub address: String,
    /// The contact.
    pub contact: String,
    /// Its preference, in thousandths.
    pub preference: u16,
    /// Time until it expires unless it is refreshed.
    #[serde(rename = "left_ms", with = "crate::units::milliseconds")]
    pub left: Duration,
    /// Time since it was set.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
}

/// State of a host's registration with a directory.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RegistrationStatus {
    /// The name, such as `alice@example.org`.
    pub name: String,
    /// The directory's URI.
    pub directory: String,
    /// Whether the directory has the registration.
    pub is_registered: bool,
    /// Time until the registration expires unless it is refreshed.
    #[serde(
        rename = "left_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub left: Option<Duration>,
    /// Reason why the last attempt failed, if it did.
    #[serde(default)]
    pub reason: Option<String>,
    /// Registered contacts.
    pub contacts: Vec<ContactStatus>,
    /// Contacts of other hosts under the same name.
    #[serde(default)]
    pub other_count: u64,
}

/// One contact of this host.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContactStatus {
    /// The contact.
    pub contact: String,
    /// Its share, in thousandths.
    pub preference: u16,
}
