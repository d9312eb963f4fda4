use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::cidr::Cidr;
use crate::address::{Refusal, classify, embedded_v4};

/// Which addresses clients may reach through a gateway.
///
/// Clients reach only hosts on the internet, and not the gateway itself; networks that the owner
/// allows are exempt from both rules. The policy is about addresses, so a name has to be resolved
/// first, and only the addresses that were checked may be connected to.
#[derive(Clone)]
pub struct DestinationPolicy {
    allowed: Vec<Cidr>,
    is_own: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl DestinationPolicy {
    /// Creates a policy that allows `allowed` besides hosts on the internet. `is_own` tells whether
    /// an address is the gateway's: an address of its links, or one under which it is advertised.
    pub fn new(
        allowed: Vec<Cidr>,
        is_own: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            allowed,
            is_own: Arc::new(is_own),
        }
    }

    /// True if clients may connect to `address`.
    ///
    /// # Errors
    /// The reason why clients may not.
    pub fn check(&self, address: IpAddr) -> Result<(), Refusal> {
        let address = address.to_canonical();
        if self.allowed.iter().any(|cidr| cidr.contains(address)) {
            return Ok(());
        }
        if self.is_own(address) {
            return Err(Refusal::Own);
        }
        classify(address).map_or(Ok(()), Err)
    }

    /// Returns the allowed addresses, with IPv4-mapped ones as IPv4, and the reasons why the other
    /// addresses are refused.
    pub(super) fn filter(&self, addresses: &[IpAddr]) -> (Vec<IpAddr>, Vec<Refusal>) {
        let mut passed = Vec::new();
        let mut refused = Vec::new();
        for address in addresses.iter().map(IpAddr::to_canonical) {
            match self.check(address) {
                Ok(()) => passed.push(address),
                Err(refusal) => refused.push(refusal),
            }
        }
        (passed, refused)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        let embedded = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => embedded_v4(address),
        };
        (self.is_own)(address) || embedded.into_iter().any(|v4| (self.is_own)(v4.into()))
    }
}

impl fmt::Debug for DestinationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DestinationPolicy")
            .field("allowed", &self.allowed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict() -> DestinationPolicy {
        let own: [IpAddr; 2] = ["11.22.33.44".parse().unwrap(), "2600::44".parse().unwrap()];
        DestinationPolicy::new(Vec::new(), move |address| own.contains(&address))
    }

    fn check(policy: &DestinationPolicy, address: &str) -> Result<(), Refusal> {
        policy.check(address.parse().unwrap())
    }

    #[test]
    fn hosts_on_the_internet_pass_in_every_form() {
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
            "2001:0:808:808:0:0:f7f7:f7f7",
            "2606:4700::1111",
            "2001:200::1",
            "2a00:1450::1",
        ] {
            assert_eq!(check(&strict(), address), Ok(()), "{address}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_its_reason() {
        use Refusal::*;
        for (address, refusal) in [
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Unspecified),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("10.0.0.1", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("100.64.0.1", CarrierNat),
            ("100.127.255.255", CarrierNat),
            ("169.254.169.254", LinkLocal),
            ("192.0.2.1", Documentation),
            ("198.51.100.1", Documentation),
            ("203.0.113.1", Documentation),
            ("198.18.0.1", Benchmark),
            ("198.19.255.255", Benchmark),
            ("192.0.0.192", Reserved),
            ("192.88.99.1", Reserved),
            ("168.63.129.16", Reserved),
            ("224.0.0.1", Multicast),
            ("239.255.255.255", Multicast),
            ("240.0.0.1", Reserved),
            ("255.255.255.255", Broadcast),
            ("::", Unspecified),
            ("::1", Loopback),
            ("fe80::1", LinkLocal),
            ("febf::1", LinkLocal),
            ("fc00::1", Private),
            ("fd00:ec2::254", Private),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
            ("2001:db8::1", Documentation),
            ("3fff:fff::1", Documentation),
            ("2001:2::1", Benchmark),
            ("2001:10::1", Reserved),
            ("100::1", Reserved),
            ("5f00::1", Reserved),
            ("4000::1", Reserved),
            ("64:ff9b:1::8.8.8.8", Private),
        ] {
            assert_eq!(check(&strict(), address), Err(refusal), "{address}");
        }
    }

    #[test]
    fn ipv4_in_ipv6_is_what_the_ipv4_address_is() {
        use Refusal::*;
        for (address, refusal) in [
            ("::ffff:127.0.0.1", Loopback),
            ("::ffff:10.0.0.1", Private),
            ("::ffff:169.254.169.254", LinkLocal),
            ("::127.0.0.1", Loopback),
            ("::10.0.0.1", Private),
            ("::8.8.8.8", Reserved),
            ("::ffff:0:10.0.0.1", Private),
            ("::ffff:0:8.8.8.8", Reserved),
            ("64:ff9b::127.0.0.1", Loopback),
            ("64:ff9b::10.1.2.3", Private),
            ("64:ff9b::a9fe:a9fe", LinkLocal),
            ("2002:7f00:1::", Loopback),
            ("2002:a00:1::1", Private),
            ("2002:c0a8:101::1", Private),
            // Teredo: a private server, then a private client (inverted).
            ("2001:0:a00:1::f7f7:f7f7", Private),
            ("2001:0:808:808::f5ff:fffe", Private),
            ("2600::5efe:10.0.0.1", Private),
            ("2600::200:5efe:127.0.0.1", Loopback),
        ] {
            assert_eq!(check(&strict(), address), Err(refusal), "{address}");
        }
    }

    #[test]
    fn the_gateway_itself_is_refused_in_every_form() {
        for address in [
            "11.22.33.44",
            "::ffff:11.22.33.44",
            "2600::44",
            "64:ff9b::11.22.33.44",
            "2002:b16:212c::1",
        ] {
            assert_eq!(check(&strict(), address), Err(Refusal::Own), "{address}");
        }
    }

    #[test]
    fn an_allowed_network_comes_first_and_covers_mapped_forms() {
        let allowed = vec![
            "10.0.0.0/8".parse().unwrap(),
            "::ffff:127.0.0.0/104".parse().unwrap(),
            "fd00::/8".parse().unwrap(),
        ];
        let policy = DestinationPolicy::new(allowed, |address| {
            address == "10.0.0.1".parse::<IpAddr>().unwrap()
        });
        assert_eq!(check(&policy, "10.9.8.7"), Ok(()));
        assert_eq!(check(&policy, "10.0.0.1"), Ok(()), "its own, but allowed");
        assert_eq!(check(&policy, "::ffff:10.9.8.7"), Ok(()));
        assert_eq!(check(&policy, "127.0.0.1"), Ok(()));
        assert_eq!(check(&policy, "fd12::1"), Ok(()));
        assert_eq!(check(&policy, "192.168.0.1"), Err(Refusal::Private));
        assert_eq!(check(&policy, "64:ff9b::10.9.8.7"), Err(Refusal::Private));
    }

    #[test]
    fn each_address_of_a_name_is_checked() {
        let addresses: Vec<IpAddr> = ["127.0.0.1", "8.8.8.8", "::ffff:1.1.1.1", "fd00::1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let (passed, refused) = strict().filter(&addresses);
        let expected: Vec<IpAddr> = vec!["8.8.8.8".parse().unwrap(), "1.1.1.1".parse().unwrap()];
        assert_eq!(passed, expected);
        assert_eq!(refused, [Refusal::Loopback, Refusal::Private]);
    }
}
