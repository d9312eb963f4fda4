//! Addresses of one customer, and of one network: a host with one of them may have all.

use std::net::IpAddr;

/// The first address of the range that one customer has: an IPv4 address, or an IPv6 /64.
pub fn source_of(address: IpAddr) -> IpAddr {
    masked(address, 32, 64)
}

/// A key that stands for one customer's addresses, where addresses tell clients apart.
pub fn key_of(address: IpAddr) -> [u8; 32] {
    let mut key = [0; 32];
    let octets = match source_of(address) {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    key[..octets.len()].copy_from_slice(&octets);
    key
}

/// The first address of one network: an IPv4 /24, or an IPv6 /48.
pub fn network_of(address: IpAddr) -> IpAddr {
    masked(address, 24, 48)
}

/// The network of an address as wide as providers get them: an IPv4 /16, an IPv6 /32. Its holder
/// has all networks within it.
pub fn provider_of(address: IpAddr) -> IpAddr {
    masked(address, 16, 32)
}

fn masked(address: IpAddr, v4: u32, v6: u32) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let prefix = u32::from(address) & (u32::MAX << (32 - v4));
            IpAddr::V4(prefix.into())
        }
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & (u128::MAX << (128 - v6));
            IpAddr::V6(prefix.into())
        }
    }
}
