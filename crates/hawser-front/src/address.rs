//! Classification of addresses, and the IPv4 addresses that are embedded in IPv6 ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Serialize;

/// Why a client may not reach an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// 0.0.0.0/8 and `::`, which many systems take for this machine.
    Unspecified,
    /// 127.0.0.0/8 and `::1`.
    Loopback,
    /// RFC 1918, fc00::/7 and fec0::/10.
    Private,
    /// 100.64.0.0/10, between a provider and its customers.
    CarrierNat,
    /// 169.254.0.0/16 and fe80::/10. Clouds serve a machine's credentials at such an address.
    LinkLocal,
    /// Networks for examples in documentation.
    Documentation,
    /// 198.18.0.0/15 and 2001:2::/48.
    Benchmark,
    /// 224.0.0.0/4 and ff00::/8.
    Multicast,
    /// 255.255.255.255.
    Broadcast,
    /// Every other address that no host on the internet has.
    Reserved,
    /// An address of the gateway.
    Own,
}

/// Returns why no host on the internet has `address`; `None` if a host may have it. An IPv6
/// address that embeds an IPv4 address gets the reason of that IPv4 address.
pub(crate) fn classify(address: IpAddr) -> Option<Refusal> {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Returns the IPv4 addresses to which, or through which, packets for an IPv6 address would go.
pub(crate) fn embedded_v4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let bytes = address.octets();
    let v4 = |at: usize| -> Option<Ipv4Addr> {
        let octets: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(octets))
    };
    let inverted = |address: Ipv4Addr| Ipv4Addr::from_bits(!address.to_bits());
    let found: [Option<Ipv4Addr>; 2] = match address.segments() {
        // Mapped, compatible, and translated as in RFC 2765.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => [v4(12), None],
        // NAT64 (RFC 6052).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => [v4(12), None],
        // 6to4 (RFC 3056).
        [0x2002, ..] => [v4(2), None],
        // Teredo (RFC 4380): the server, and the client with its bits inverted.
        [0x2001, 0, ..] => [v4(4), v4(12).map(inverted)],
        // ISATAP (RFC 5214) under whatever prefix.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => [v4(12), None],
        _ => [None, None],
    };
    found.into_iter().flatten().collect()
}

fn classify_v4(address: Ipv4Addr) -> Option<Refusal> {
    let refusal = match address.octets() {
        [0, ..] => Refusal::Unspecified,
        [127, ..] => Refusal::Loopback,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Refusal::Private,
        [100, 64..=127, ..] => Refusal::CarrierNat,
        [169, 254, ..] => Refusal::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Refusal::Documentation,
        [198, 18..=19, ..] => Refusal::Benchmark,
        [224..=239, ..] => Refusal::Multicast,
        [255, 255, 255, 255] => Refusal::Broadcast,
        // Protocol assignments, the anycast address of 6to4 relays, and future use.
        [192, 0, 0, _] | [192, 88, 99, _] | [240..=255, ..] => Refusal::Reserved,
        // A public address that reaches the host under a virtual machine in Microsoft's cloud.
        [168, 63, 129, 16] => Refusal::Reserved,
        _ => return None,
    };
    Some(refusal)
}

fn classify_v6(address: Ipv6Addr) -> Option<Refusal> {
    let by_itself = match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Some(Refusal::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Some(Refusal::Loopback),
        // Mapped and NAT64: the embedded address decides. Compatible and translated addresses have
        // no place on the internet, whatever they embed.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => None,
        [0x64, 0xff9b, 1, ..] => Some(Refusal::Private),
        [0xfe80..=0xfebf, ..] => Some(Refusal::LinkLocal),
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Some(Refusal::Private),
        [0xff00..=0xffff, ..] => Some(Refusal::Multicast),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Some(Refusal::Documentation),
        [0x2001, 2, 0, ..] => Some(Refusal::Benchmark),
        // Teredo: the embedded addresses decide.
        [0x2001, 0, ..] => None,
        [0x2001, 1..=0x1ff, ..] => Some(Refusal::Reserved),
        // The only part of IPv6 whose addresses hosts get (RFC 4291 §2.4, IANA).
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Refusal::Reserved),
    };
    // The embedded address gives a more specific reason than "reserved".
    let by_embedded = embedded_v4(address).into_iter().find_map(classify_v4);
    match by_itself {
        None | Some(Refusal::Reserved) => by_embedded.or(by_itself),
        Some(_) => by_itself,
    }
}
