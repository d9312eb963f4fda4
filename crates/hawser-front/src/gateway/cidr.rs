use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A network: an address and the length of its prefix.
///
/// A network of IPv4-mapped IPv6 addresses is treated as the IPv4 network, and an IPv4-mapped
/// address as the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Creates the network of all addresses that agree with `network` in the first `prefix` bits.
    ///
    /// # Errors
    /// When the prefix is longer than the address, or the address has bits after it.
    pub fn new(network: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        let (network, prefix) = match network {
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(mapped) if (MAPPED_PREFIX..=128).contains(&prefix) => {
                    (mapped.into(), prefix - MAPPED_PREFIX)
                }
                _ => (network, prefix),
            },
            IpAddr::V4(_) => (network, prefix),
        };
        let longest = bits_of(network);
        if prefix > longest {
            return Err(CidrError::PrefixTooLong { prefix, longest });
        }
        let cidr = Self { network, prefix };
        let masked = cidr.masked(network);
        if masked != network {
            return Err(CidrError::HostBits {
                network: masked,
                prefix,
            });
        }
        Ok(cidr)
    }

    /// True if `address` lies in this network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && self.masked(address) == self.network
    }

    fn masked(&self, address: IpAddr) -> IpAddr {
        match address {
            IpAddr::V4(address) => {
                let drop = 32_u32.saturating_sub(self.prefix.into());
                let mask = u32::MAX.checked_shl(drop).unwrap_or(0);
                std::net::Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let drop = 128_u32.saturating_sub(self.prefix.into());
                let mask = u128::MAX.checked_shl(drop).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    /// Reads `10.0.0.0/8`, `fd00::/8`, or an address alone.
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| CidrError::Address)?;
        let prefix = match prefix {
            None => bits_of(address),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| CidrError::Prefix)?
            }
            Some(_) => return Err(CidrError::Prefix),
        };
        Self::new(address, prefix)
    }
}

/// Why text is not a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CidrError {
    /// Not an IP address before the slash.
    #[error("not an ip address; a network is written like 10.0.0.0/8 or fd00::/8")]
    Address,
    /// Not a number after the slash.
    #[error("not a prefix length")]
    Prefix,
    /// More bits than the address has.
    #[error("prefix length {prefix} is above {longest}")]
    PrefixTooLong {
        /// The given length.
        prefix: u8,
        /// The greatest allowed length.
        longest: u8,
    },
    /// The address is not the first of its network.
    #[error("address has bits after the prefix; the network is {network}/{prefix}")]
    HostBits {
        /// The first address of the network.
        network: IpAddr,
        /// The prefix length.
        prefix: u8,
    },
}

const fn bits_of(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// The bits before the IPv4 address in an IPv4-mapped one.
const MAPPED_PREFIX: u8 = 96;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contains(cidr: &str, address: &str) -> bool {
        let cidr: Cidr = cidr.parse().unwrap();
        cidr.contains(address.parse().unwrap())
    }

    #[test]
    fn mapped_addresses_and_networks_are_ipv4() {
        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(contains("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!contains("10.0.0.0/8", "11.0.0.0"));
        assert!(!contains("::/0", "10.0.0.1"), "all of ipv6 is not ipv4");
        assert!(contains("0.0.0.0/0", "255.255.255.255"));
        assert!(contains("::/0", "2001:db8::1"));
        assert!(contains("192.0.2.1", "192.0.2.1"));
        assert!(!contains("fd00::/8", "fe00::"));
    }

    #[test]
    fn errors_say_what_is_allowed() {
        let error = |text: &str| text.parse::<Cidr>().unwrap_err().to_string();
        assert_eq!(
            error("10.1.2.3/8"),
            "address has bits after the prefix; the network is 10.0.0.0/8"
        );
        assert_eq!(error("10.0.0.0/33"), "prefix length 33 is above 32");
        assert_eq!(error("10.0.0.0/+8"), "not a prefix length");
        assert_eq!(error("10.0.0.0/"), "not a prefix length");
        assert!(error("example.org/8").starts_with("not an ip address"));
    }

    proptest! {
        #[test]
        fn a_network_prints_as_itself_and_holds_its_first_address(
            bits: u128,
            prefix in 0..=128_u8,
        ) {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
            let first = IpAddr::from(Ipv6Addr::from_bits(bits & mask));
            let cidr = Cidr::new(first, prefix).unwrap();
            prop_assert!(cidr.contains(first));
            prop_assert_eq!(cidr.to_string().parse(), Ok(cidr));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "[0-9a-f.:/]{0,40}") {
            crate::fuzzing::fuzz_cidr(text.as_bytes());
        }
    }
}
