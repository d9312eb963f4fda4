//! What only askers on this machine may reach.

use std::net::IpAddr;

use hawser_net::links::OwnAddresses;

use crate::address::{Refusal, classify, embedded_v4};
use crate::connection::Origin;
use crate::transport::DialError;

/// This machine, as other machines may not see it through the proxy port.
///
/// Services that listen on loopback, or trust this machine's addresses, take every connection that
/// Hawser makes for one of this machine. So an asker elsewhere ([`Origin::is_elsewhere`]) reaches
/// no loopback, link-local, unspecified, multicast or broadcast address, and none of this
/// machine's own, in whatever form. Everything else is as open to it as to local askers.
#[derive(Clone, Debug, Default)]
pub struct ThisMachine {
    own: OwnAddresses,
}

impl ThisMachine {
    /// This machine with its own addresses, which are followed.
    pub const fn new(own: OwnAddresses) -> Self {
        Self { own }
    }

    /// Tells whether the application at `origin` may reach `address` from here.
    pub(crate) fn admits(&self, origin: &Origin, address: IpAddr) -> bool {
        !origin.is_elsewhere || !self.has(address)
    }

    /// Returns those of `addresses` that the application at `origin` may reach from here.
    ///
    /// # Errors
    /// [`DialError::RefusedByPolicy`] if it may reach none of them.
    pub(crate) fn admitted(
        &self,
        origin: &Origin,
        mut addresses: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>, DialError> {
        let before = addresses.len();
        addresses.retain(|address| self.admits(origin, *address));
        match addresses.is_empty() && before > 0 {
            true => Err(DialError::RefusedByPolicy),
            false => Ok(addresses),
        }
    }

    /// Tells whether `address` is one of these.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let embedded = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => embedded_v4(address),
        };
        is_local_by_itself(address)
            || self.own.contains(address)
            || embedded.into_iter().any(|v4| self.own.contains(v4.into()))
    }
}

/// Whether an address means this machine, or what is on its links, wherever it is used.
fn is_local_by_itself(address: IpAddr) -> bool {
    matches!(
        classify(address),
        Some(
            Refusal::Loopback
                | Refusal::LinkLocal
                | Refusal::Unspecified
                | Refusal::Multicast
                | Refusal::Broadcast
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn askers_elsewhere_reach_nothing_that_is_only_here() {
        let machine = ThisMachine::default();
        let here = Origin::default();
        let elsewhere = Origin {
            is_elsewhere: true,
            ..Origin::default()
        };
        for (address, is_open) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("224.0.0.251", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("2002:7f00:1::1", false),
            ("fe80::1", false),
            ("ff02::fb", false),
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(machine.admits(&elsewhere, address), is_open, "{address}");
            assert!(machine.admits(&here, address), "{address}");
        }
    }

    #[test]
    fn of_a_names_addresses_those_that_are_only_here_are_left_out() {
        let elsewhere = Origin {
            is_elsewhere: true,
            ..Origin::default()
        };
        let admitted = |texts: &[&str]| {
            let addresses = texts.iter().map(|text| text.parse().unwrap()).collect();
            ThisMachine::default().admitted(&elsewhere, addresses)
        };
        let kept = vec!["192.0.2.1".parse::<IpAddr>().unwrap()];
        assert_eq!(admitted(&["::1", "192.0.2.1", "127.0.0.1"]), Ok(kept));
        assert_eq!(admitted(&["::1"]), Err(DialError::RefusedByPolicy));
        assert_eq!(admitted(&[]), Ok(Vec::new()));
    }
}
