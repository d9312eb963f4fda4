//! Where a directory sends requests to.

use std::net::IpAddr;

use hawser_sip::directory::Reach;

use crate::address::{Refusal, classify};
use crate::this_machine::ThisMachine;

/// The hosts that a directory may reach for its users and their callers.
pub(super) struct Hosts {
    machine: ThisMachine,
    /// Nobody on another machine can ask, so that this one need not be spared.
    is_local: bool,
}

impl Hosts {
    pub(super) fn new(machine: ThisMachine, is_local: bool) -> Self {
        Self { machine, is_local }
    }
}

impl Reach for Hosts {
    fn may_reach(&self, address: IpAddr) -> bool {
        match self.is_local {
            true => {
                let group = [Refusal::Multicast, Refusal::Broadcast];
                classify(address).is_none_or(|refusal| !group.contains(&refusal))
            }
            false => !self.machine.has(address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use hawser_net::links::OwnAddresses;

    use super::*;

    fn may_reach(hosts: &Hosts, address: &str) -> bool {
        hosts.may_reach(address.parse().unwrap())
    }

    #[test]
    fn this_machine_and_groups_are_not_reached_unless_all_is_local() {
        let machine = ThisMachine::default();
        for (is_local, expected) in [(false, false), (true, true)] {
            let hosts = Hosts::new(machine.clone(), is_local);
            for own in ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"] {
                assert_eq!(may_reach(&hosts, own), expected, "{own}");
            }
            for group in ["224.0.0.1", "255.255.255.255", "ff02::1"] {
                assert!(!may_reach(&hosts, group), "{group}");
            }
            for host in ["192.0.2.1", "10.0.0.1", "2001:db8::1"] {
                assert!(may_reach(&hosts, host), "{host}");
            }
        }
        let hosts = Hosts::new(machine, false);
        for own in ["0.0.0.0", "::", "169.254.169.254", "fe80::1"] {
            assert!(!may_reach(&hosts, own), "{own}");
        }
    }

    #[tokio::test]
    async fn an_address_of_this_machine_is_not_reached() {
        // Nothing is sent: the kernel says which address it would send from.
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
        let machine = ThisMachine::new(OwnAddresses::follow().await.unwrap());
        assert!(!Hosts::new(machine, false).may_reach(own));
    }
}
