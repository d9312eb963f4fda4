use std::net::IpAddr;

/// Returns whether hosts elsewhere on the internet cannot reach an address: one of a private
/// network, of a provider's network behind its address translation, of one link, or of this host.
///
/// An IPv4 address in IPv6 form counts as what it is.
///
/// Source: RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291 §2.5.
pub fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
            ip.is_private() || ip.is_link_local() || ip.is_loopback() || is_shared
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_internet_are_told_from_others() {
        for address in [
            "10.0.0.1",
            "172.31.255.255",
            "192.168.7.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.1.1",
            "127.0.0.1",
            "::ffff:10.0.0.1",
            "fd00::1",
            "fe80::1",
            "::1",
        ] {
            assert!(is_private(address.parse().unwrap()), "{address}");
        }
        for address in [
            "100.63.255.255",
            "100.128.0.1",
            "172.32.0.1",
            "192.0.2.1",
            "::ffff:192.0.2.1",
            "2001:db8::1",
        ] {
            assert!(!is_private(address.parse().unwrap()), "{address}");
        }
    }
}
