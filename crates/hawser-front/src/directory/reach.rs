//! Which hosts a directory sends requests to.

use std::net::IpAddr;

use hawser_sip::directory::Reach;

use crate::address::{Refusal, classify};
use crate::gateway::DestinationPolicy;

/// The hosts that a directory may reach for its users and their callers.
pub(super) struct Hosts {
    policy: DestinationPolicy,
    /// Whether only this machine can ask, so that its own addresses need no protection.
    is_local: bool,
}

impl Hosts {
    pub(super) fn new(policy: DestinationPolicy, is_local: bool) -> Self {
        Self { policy, is_local }
    }
}

impl Reach for Hosts {
    /// A registered contact is unverified text. So it may lead to hosts on the internet and to
    /// networks that the owner allows, but to other networks only if the user was heard from there.
    fn may_reach(&self, address: IpAddr, is_origin: bool) -> bool {
        if self.is_local {
            let group = [Refusal::Multicast, Refusal::Broadcast];
            return classify(address).is_none_or(|refusal| !group.contains(&refusal));
        }
        match self.policy.check(address) {
            Ok(()) => true,
            Err(
                Refusal::Private
                | Refusal::CarrierNat
                | Refusal::Documentation
                | Refusal::Benchmark,
            ) => is_origin,
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use hawser_link::links::OwnAddresses;

    use super::*;

    fn policy(allowed: &[&str]) -> DestinationPolicy {
        let allowed = allowed.iter().map(|text| text.parse().unwrap());
        DestinationPolicy::new(allowed.collect(), |address| {
            address == IpAddr::from([10, 0, 0, 254])
        })
    }

    /// Returns whether it may be reached for anyone, and for a user who was heard from there.
    fn reached(hosts: &Hosts, address: &str) -> [bool; 2] {
        let address = address.parse().unwrap();
        [false, true].map(|is_origin| hosts.may_reach(address, is_origin))
    }

    #[test]
    fn a_contact_in_another_network_is_reached_where_the_user_was_heard_from() {
        let hosts = Hosts::new(policy(&["10.60.0.0/16"]), false);
        for (address, expected) in [
            ("9.9.9.9", [true, true]),
            ("2606:4700::1111", [true, true]),
            ("10.60.0.6", [true, true]),
            ("10.50.0.6", [false, true]),
            ("192.168.1.1", [false, true]),
            ("100.64.0.1", [false, true]),
            ("192.0.2.1", [false, true]),
            ("fd00::1", [false, true]),
            ("::ffff:10.50.0.6", [false, true]),
            // The host below this one in a cloud, and where it keeps this machine's credentials.
            ("168.63.129.16", [false, false]),
            ("169.254.169.254", [false, false]),
            // This machine.
            ("10.0.0.254", [false, false]),
            ("127.0.0.1", [false, false]),
            ("::ffff:127.0.0.1", [false, false]),
            ("0.0.0.0", [false, false]),
            ("::", [false, false]),
            ("fe80::1", [false, false]),
        ] {
            assert_eq!(reached(&hosts, address), expected, "{address}");
        }
    }

    #[test]
    fn groups_are_not_reached_and_this_machine_if_all_is_local() {
        for is_local in [false, true] {
            let hosts = Hosts::new(policy(&[]), is_local);
            for group in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
                assert_eq!(reached(&hosts, group), [false; 2], "{group}");
            }
            for own in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(reached(&hosts, own), [is_local; 2], "{own}");
            }
        }
    }

    #[tokio::test]
    async fn an_address_of_this_machine_is_not_reached() {
        // Nothing is sent: the kernel only selects the source address.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let test = "hawser-front::directory::reach::an_address_of_this_machine_is_not_reached";
        if socket
            .connect(SocketAddr::from(([192, 0, 2, 1], 9)))
            .is_err()
        {
            return hawser_skip::skip(test, "this machine has no way to anywhere");
        }
        let own = socket.local_addr().unwrap().ip();
        assert!(!own.is_loopback());
        let addresses = OwnAddresses::follow().await.unwrap();
        let policy = DestinationPolicy::new(Vec::new(), move |it| addresses.contains(it));
        assert!(!Hosts::new(policy, false).may_reach(own, true));
    }
}
