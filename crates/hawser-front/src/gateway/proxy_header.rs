//! The header of the PROXY protocol, which tells a service the client of a connection.
//!
//! Source: "The PROXY protocol", version 2, §2.2, by HAProxy.

use std::net::{IpAddr, SocketAddr};

/// Returns the binary header for a TCP connection from `client` to `server`. Both addresses have
/// one family on the wire: an IPv4 address beside an IPv6 one is sent in its mapped form.
pub(super) fn header(client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let (from, to) = (client.ip().to_canonical(), server.ip().to_canonical());
    let mut addresses = Vec::with_capacity(LONGEST);
    let family = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            addresses.extend(from.octets());
            addresses.extend(to.octets());
            TCP_OVER_IPV4
        }
        _ => {
            for address in [from, to] {
                let address = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                addresses.extend(address.octets());
            }
            TCP_OVER_IPV6
        }
    };
    addresses.extend(client.port().to_be_bytes());
    addresses.extend(server.port().to_be_bytes());
    let mut header = SIGNATURE.to_vec();
    header.extend([VERSION_2_PROXY, family]);
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header
}

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 in the upper half, the command PROXY in the lower one.
const VERSION_2_PROXY: u8 = 0x21;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
/// Two IPv6 addresses and two ports.
const LONGEST: usize = 36;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let v4 = header(at("[::ffff:192.0.2.7]:50000"), at("198.51.100.1:443"));
        let mut expected = vec![
            0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
        ];
        expected.extend([0x21, 0x11, 0, 12, 192, 0, 2, 7, 198, 51, 100, 1]);
        expected.extend([0xc3, 0x50, 0x01, 0xbb]);
        assert_eq!(v4, expected);
        let v6 = header(at("[2001:db8::7]:1"), at("192.0.2.1:2"));
        assert_eq!(v6[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(v6[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(v6[42..], [0xff, 0xff, 192, 0, 2, 1, 0, 1, 0, 2]);
        assert_eq!(v6.len(), 16 + LONGEST);
    }
}
