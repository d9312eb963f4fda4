//! Messages between client and gateway at the beginning of a packet tunnel: `docs/protocol.md`,
//! section 10.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes};
use hawser_wire::StreamKind;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The client's request for a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Ask for the client's permanent address, the same with each request; otherwise for an address
    /// for this tunnel alone.
    pub is_permanent: bool,
    /// Also ask for networks for hosts behind the client, so that each has an address of its own.
    /// Only together with a permanent address.
    pub is_for_hosts: bool,
    /// The addresses that the tunnel had before its session was lost.
    pub before: Inner,
}

/// The addresses of one end of a tunnel, one of each family that the gateway supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inner {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// Networks in which hosts behind a client have addresses, one of each family at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostNetworks {
    /// IPv4.
    pub v4: Option<Ipv4Net>,
    /// IPv6.
    pub v6: Option<Ipv6Net>,
}

/// The gateway's grant of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The client's addresses.
    pub client: Inner,
    /// Networks of hosts behind the client. Packets from other addresses are dropped.
    pub hosts: HostNetworks,
    /// The gateway's addresses.
    pub gateway: Inner,
    /// Size of the largest packet in the tunnel, in bytes.
    pub mtu: u16,
}

impl Wish {
    /// Encodes the request as the first message of the tunnel's stream.
    pub fn to_opening(self) -> Bytes {
        let mut opening = Vec::with_capacity(OPENING_LENGTH);
        opening.put_u8(StreamKind::Packets.number());
        let permanent = if self.is_permanent { PERMANENT } else { 0 };
        let hosts = if self.is_for_hosts { HOSTS } else { 0 };
        opening.put_u8(permanent | hosts);
        self.before.put(&mut opening);
        opening.into()
    }

    /// Reads the first message of a tunnel's stream; `None`: the message is malformed. Ignores
    /// unknown flags.
    pub fn of_opening(opening: &[u8]) -> Option<Self> {
        let mut rest = opening;
        if opening.len() != OPENING_LENGTH || rest.get_u8() != StreamKind::Packets.number() {
            return None;
        }
        let flags = rest.get_u8();
        Some(Self {
            is_permanent: flags & PERMANENT != 0,
            is_for_hosts: flags & HOSTS != 0,
            before: Inner::take(&mut rest),
        })
    }
}

impl Terms {
    /// Returns the metadata with which the gateway accepts the stream.
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(TERMS_LENGTH + HOSTS_LENGTH);
        self.client.put(&mut bytes);
        self.gateway.put(&mut bytes);
        bytes.put_u16(self.mtu);
        self.hosts.put(&mut bytes);
        bytes.into()
    }

    /// Reads the gateway's answer; `None`: the answer is malformed. Later versions may append more.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        if bytes.len() < TERMS_LENGTH {
            return None;
        }
        let terms = Self {
            client: Inner::take(&mut rest),
            gateway: Inner::take(&mut rest),
            mtu: rest.get_u16(),
            hosts: HostNetworks::take(rest)?,
        };
        let is_usable = terms.mtu >= MIN_MTU && terms.client.addresses().next().is_some();
        is_usable.then_some(terms)
    }

    /// Returns all addresses that the client's packets may come from.
    pub(super) fn of_client(&self) -> Vec<IpNet> {
        let own = self.client.addresses().map(IpNet::from);
        own.chain(self.hosts.networks()).collect()
    }
}

impl Inner {
    /// Returns the addresses that are set.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.map(IpAddr::from);
        v4.into_iter().chain(self.v6.map(IpAddr::from))
    }

    /// True if `address` is one of these addresses.
    pub fn contains(self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address)
    }

    fn put(self, out: &mut Vec<u8>) {
        out.put_slice(&self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        out.put_slice(&self.v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
    }

    /// Reads the addresses. `from` has [`INNER_LENGTH`] bytes at least.
    fn take(from: &mut &[u8]) -> Self {
        let v4 = Ipv4Addr::from(from.get_u32());
        let v6 = Ipv6Addr::from(from.get_u128());
        Self {
            v4: (!v4.is_unspecified()).then_some(v4),
            v6: (!v6.is_unspecified()).then_some(v6),
        }
    }
}

impl HostNetworks {
    /// Returns the networks that are set.
    pub fn networks(self) -> impl Iterator<Item = IpNet> {
        let v4 = self.v4.map(IpNet::from);
        v4.into_iter().chain(self.v6.map(IpNet::from))
    }

    /// True if `address` is in one of the networks.
    pub fn contains(self, address: IpAddr) -> bool {
        self.networks().any(|net| net.contains(&address))
    }

    fn put(self, out: &mut Vec<u8>) {
        let v4 = self.v4.unwrap_or_default();
        out.put_slice(&v4.addr().octets());
        out.put_u8(v4.prefix_len());
        let v6 = self.v6.unwrap_or_default();
        out.put_slice(&v6.addr().octets());
        out.put_u8(v6.prefix_len());
    }

    /// Reads the networks. An earlier version leaves them out, which is no error. `None` if they
    /// are malformed.
    fn take(mut from: &[u8]) -> Option<Self> {
        if from.len() < HOSTS_LENGTH {
            return Some(Self::default());
        }
        let v4 = Ipv4Net::new(from.get_u32().into(), from.get_u8()).ok()?;
        let v6 = Ipv6Net::new(from.get_u128().into(), from.get_u8()).ok()?;
        Some(Self {
            v4: (v4.prefix_len() > 0).then_some(v4.trunc()),
            v6: (v6.prefix_len() > 0).then_some(v6.trunc()),
        })
    }
}

const PERMANENT: u8 = 1;
const HOSTS: u8 = 2;
const HOSTS_LENGTH: usize = 5 + 17;
const INNER_LENGTH: usize = 4 + 16;
const OPENING_LENGTH: usize = 2 + INNER_LENGTH;
const TERMS_LENGTH: usize = 2 * INNER_LENGTH + 2;
/// Source: RFC 8200 §5.
const MIN_MTU: u16 = 1280;

#[cfg(test)]
mod tests {
    use super::*;

    fn inner() -> Inner {
        Inner {
            v4: Some(Ipv4Addr::new(10, 83, 0, 2)),
            v6: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
        }
    }

    #[test]
    fn wishes_and_terms_come_back() {
        for (is_permanent, is_for_hosts) in [(false, false), (true, false), (true, true)] {
            for before in [Inner::default(), inner()] {
                let wish = Wish {
                    is_permanent,
                    is_for_hosts,
                    before,
                };
                assert_eq!(Wish::of_opening(&wish.to_opening()), Some(wish));
            }
        }
        let terms = Terms {
            client: inner(),
            gateway: Inner {
                v6: None,
                ..inner()
            },
            mtu: 1420,
            hosts: HostNetworks {
                v4: Some("10.83.128.64/26".parse().unwrap()),
                v6: Some("fd00::2:0/112".parse().unwrap()),
            },
        };
        let bytes = terms.to_bytes();
        assert_eq!(Terms::read(&bytes), Some(terms));
        // An earlier version ends before the networks.
        let without = Terms {
            hosts: HostNetworks::default(),
            ..terms
        };
        assert_eq!(Terms::read(&bytes[..42]), Some(without));
        assert_eq!(Terms::read(&without.to_bytes()), Some(without));
        let longer = [&bytes[..], b"more"].concat();
        assert_eq!(Terms::read(&longer), Some(terms));
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let opening = Wish::default().to_opening();
        for wrong in [
            &opening[..21],
            &[&opening[..], &[0]].concat(),
            &[],
            &[0x12; 22],
        ] {
            assert_eq!(Wish::of_opening(wrong), None, "{wrong:?}");
        }
        let mut terms = Terms {
            client: inner(),
            gateway: inner(),
            mtu: 1279,
            hosts: HostNetworks::default(),
        };
        assert_eq!(Terms::read(&terms.to_bytes()), None);
        terms.mtu = 1280;
        assert_eq!(Terms::read(&terms.to_bytes()), Some(terms));
        assert_eq!(Terms::read(&terms.to_bytes()[..41]), None);
        let mut longer = terms.to_bytes().to_vec();
        longer[46] = 33;
        assert_eq!(Terms::read(&longer), None, "no such prefix of IPv4");
        terms.client = Inner::default();
        assert_eq!(Terms::read(&terms.to_bytes()), None, "no address");
    }
}
