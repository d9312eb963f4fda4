//! Helpers for the tests of several modules.

use std::net::IpAddr;

use crate::digest::{Algorithm, Secret};
use crate::directory::Reach;
use crate::registrar::Users;

/// Users of every name, with the password `p`: each registers under its own name, and may watch all
/// users but Carol.
pub(crate) struct Everybody;

/// Reachability of all addresses but those of this machine itself.
pub(crate) struct Everywhere;

impl Users for Everybody {
    fn secret(&self, username: &str, algorithm: Algorithm) -> Option<Secret> {
        Some(Secret::new(algorithm, username, "example.org", "p"))
    }

    fn may_register(&self, username: &str, address: &str) -> bool {
        address == format!("sip:{username}@example.org")
    }

    fn may_watch(&self, _: &str, address: &str) -> bool {
        address != "sip:carol@example.org"
    }
}

impl Reach for Everywhere {
    fn may_reach(&self, address: IpAddr, _: bool) -> bool {
        !address.is_loopback()
    }
}
