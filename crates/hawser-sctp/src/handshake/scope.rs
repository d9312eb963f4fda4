use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Tells whether this can be the address of a single host.
pub(crate) fn is_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let is_class_e = address.octets()[0] >= 240;
            let is_nowhere = address.octets()[0] == 0;
            !(address.is_multicast() || is_class_e || is_nowhere)
        }
        IpAddr::V6(address) => {
            let is_disguised = address.to_ipv4_mapped().is_some();
            !(address.is_multicast() || address.is_unspecified() || is_disguised)
        }
    }
}

/// Tells whether `listed` may be listed to, or by, a host with the address `seen`: only addresses
/// of at least the same scope. So a host on the internet cannot make this host send to its own
/// network.
pub(crate) fn may_list(seen: IpAddr, listed: IpAddr) -> bool {
    scope(listed) >= scope(seen)
}

/// The scope of an address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Host,
    Link,
    Site,
    World,
}

fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(address) => scope_v4(address),
        IpAddr::V6(address) => scope_v6(address),
    }
}

fn scope_v4(address: Ipv4Addr) -> Scope {
    let [first, second, ..] = address.octets();
    let is_carrier = first == 100 && second & 0xC0 == 64;
    if address.is_loopback() {
        Scope::Host
    } else if address.is_link_local() {
        Scope::Link
    } else if address.is_private() || is_carrier {
        Scope::Site
    } else {
        Scope::World
    }
}

fn scope_v6(address: Ipv6Addr) -> Scope {
    if address.is_loopback() {
        Scope::Host
    } else if address.is_unicast_link_local() {
        Scope::Link
    } else if address.is_unique_local() {
        Scope::Site
    } else {
        Scope::World
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn groups_broadcast_and_nowhere_are_no_hosts() {
        for not in [
            "224.0.0.1",
            "255.255.255.255",
            "0.0.0.0",
            "0.1.2.3",
            "ff02::1",
            "::",
        ] {
            assert!(!is_host(ip(not)), "{not}");
        }
        assert!(!is_host(ip("::ffff:10.0.0.1")), "IPv4 in disguise");
        for host in [
            "10.0.0.1",
            "192.0.2.7",
            "127.0.0.1",
            "2001:db8::1",
            "fe80::1",
        ] {
            assert!(is_host(ip(host)), "{host}");
        }
    }

    #[test]
    fn a_host_of_the_internet_names_no_address_of_this_network() {
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.1.1",
        ] {
            assert!(!may_list(ip("203.0.113.5"), ip(inside)), "{inside}");
            assert!(!may_list(ip("2001:db8::5"), ip(inside)), "{inside}");
        }
        assert!(!may_list(ip("203.0.113.5"), ip("::1")));
        assert!(!may_list(ip("203.0.113.5"), ip("fd00::1")));
        assert!(may_list(ip("203.0.113.5"), ip("198.51.100.9")));
    }

    #[test]
    fn a_host_of_this_network_names_its_others_and_those_of_the_internet() {
        assert!(may_list(ip("10.0.0.1"), ip("192.168.3.1")));
        assert!(may_list(ip("10.0.0.1"), ip("203.0.113.5")));
        assert!(!may_list(ip("10.0.0.1"), ip("127.0.0.1")));
        assert!(may_list(ip("127.0.0.1"), ip("127.0.0.2")));
    }
}
