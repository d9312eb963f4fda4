//! What client and gateway say to each other as a tunnel for packets begins: `docs/protocol.md`,
//! section 10.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Buf, BufMut, Bytes};

/// The opening's first byte.
pub(crate) const OPENING_PACKETS: u8 = 0x14;

/// What the client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The client's own address, which it gets whenever it asks for that; else one for this tunnel
    /// alone.
    pub is_permanent: bool,
    /// The addresses that the tunnel had before its session was lost.
    pub before: Inner,
}

/// The addresses of one end of a tunnel, one of each family that the gateway carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inner {
    /// IPv4.
    pub v4: Option<Ipv4Addr>,
    /// IPv6.
    pub v6: Option<Ipv6Addr>,
}

/// What the gateway grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The client's addresses. Packets from others are dropped.
    pub client: Inner,
    /// The gateway's.
    pub gateway: Inner,
    /// Largest packet.
    pub mtu: u16,
}

impl Wish {
    /// The opening of the stream.
    pub fn to_opening(self) -> Bytes {
        let mut opening = Vec::with_capacity(OPENING_LENGTH);
        opening.put_u8(OPENING_PACKETS);
        opening.put_u8(u8::from(self.is_permanent));
        self.before.put(&mut opening);
        opening.into()
    }

    /// Reads an opening; `None`: it is malformed. Unknown flags are left out of account.
    pub fn of_opening(opening: &[u8]) -> Option<Self> {
        let mut rest = opening;
        if opening.len() != OPENING_LENGTH || rest.get_u8() != OPENING_PACKETS {
            return None;
        }
        let flags = rest.get_u8();
        Some(Self {
            is_permanent: flags & PERMANENT != 0,
            before: Inner::take(&mut rest),
        })
    }
}

impl Terms {
    /// What the gateway accepts the stream with.
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = Vec::with_capacity(TERMS_LENGTH);
        self.client.put(&mut bytes);
        self.gateway.put(&mut bytes);
        bytes.put_u16(self.mtu);
        bytes.into()
    }

    /// Reads what the gateway has said; `None`: it is malformed. Later versions may say more.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        if bytes.len() < TERMS_LENGTH {
            return None;
        }
        let terms = Self {
            client: Inner::take(&mut rest),
            gateway: Inner::take(&mut rest),
            mtu: rest.get_u16(),
        };
        let is_usable = terms.mtu >= MIN_MTU && terms.client.addresses().next().is_some();
        is_usable.then_some(terms)
    }
}

impl Inner {
    /// Those that there are.
    pub fn addresses(self) -> impl Iterator<Item = IpAddr> {
        let v4 = self.v4.map(IpAddr::from);
        v4.into_iter().chain(self.v6.map(IpAddr::from))
    }

    /// True if `address` is one of them.
    pub fn contains(self, address: IpAddr) -> bool {
        self.addresses().any(|own| own == address)
    }

    fn put(self, out: &mut Vec<u8>) {
        out.put_slice(&self.v4.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        out.put_slice(&self.v6.unwrap_or(Ipv6Addr::UNSPECIFIED).octets());
    }

    /// `from` has [`INNER_LENGTH`] bytes at least.
    fn take(from: &mut &[u8]) -> Self {
        let v4 = Ipv4Addr::from(from.get_u32());
        let v6 = Ipv6Addr::from(from.get_u128());
        Self {
            v4: (!v4.is_unspecified()).then_some(v4),
            v6: (!v6.is_unspecified()).then_some(v6),
        }
    }
}

const PERMANENT: u8 = 1;
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
        for is_permanent in [false, true] {
            for before in [Inner::default(), inner()] {
                let wish = Wish {
                    is_permanent,
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
        };
        let bytes = terms.to_bytes();
        assert_eq!(Terms::read(&bytes), Some(terms));
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
        };
        assert_eq!(Terms::read(&terms.to_bytes()), None);
        terms.mtu = 1280;
        assert_eq!(Terms::read(&terms.to_bytes()), Some(terms));
        assert_eq!(Terms::read(&terms.to_bytes()[..41]), None);
        terms.client = Inner::default();
        assert_eq!(Terms::read(&terms.to_bytes()), None, "no address");
    }
}
