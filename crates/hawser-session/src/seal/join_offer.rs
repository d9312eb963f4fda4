//! First message of a gateway on a connection that it begins: who it is, and for which session.

use std::net::{IpAddr, SocketAddr};

use hawser_wire::JoinOffer;
use ring::hmac;
use zeroize::Zeroizing;

use super::{SessionKeys, expand};

/// Both ends of a connection, as each of them sees them: an address that is translated on the way
/// makes the code another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferEnds {
    /// The gateway's address and port.
    pub gateway: SocketAddr,
    /// The client's address and port.
    pub client: SocketAddr,
}

impl SessionKeys {
    /// Returns the offer with this number for a connection between these ends.
    pub fn join_offer(&self, number: u64, ends: OfferEnds) -> JoinOffer {
        let code = hmac::sign(&self.offer_key(), &authenticated(number, ends));
        let mut offer = JoinOffer {
            session: self.session_id(),
            number,
            code: [0; 32],
        };
        offer.code.copy_from_slice(code.as_ref());
        offer
    }

    /// True if the offer is one of this session, for a connection between these ends. Compares in
    /// constant time.
    pub fn is_join_offer(&self, offer: &JoinOffer, ends: OfferEnds) -> bool {
        let authenticated = authenticated(offer.number, ends);
        hmac::verify(&self.offer_key(), &authenticated, &offer.code).is_ok()
    }

    fn offer_key(&self) -> hmac::Key {
        let mut key = Zeroizing::new([0; 32]);
        expand(&self.exporter[..], &[b"hawser join offer"], &mut key[..]);
        hmac::Key::new(hmac::HMAC_SHA256, &key[..])
    }
}

/// Returns the bytes that the code covers: the number, and both ends.
fn authenticated(number: u64, ends: OfferEnds) -> [u8; 8 + 2 * END_LENGTH] {
    let mut out = [0; 8 + 2 * END_LENGTH];
    out[..8].copy_from_slice(&number.to_be_bytes());
    for (place, end) in [ends.gateway, ends.client].into_iter().enumerate() {
        let ip = match end.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let at = 8 + place * END_LENGTH;
        out[at..at + 16].copy_from_slice(&ip.octets());
        out[at + 16..at + END_LENGTH].copy_from_slice(&end.port().to_be_bytes());
    }
    out
}

/// An IPv6 address, or an IPv4 address mapped to one, and a port.
const END_LENGTH: usize = 18;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::Aead;

    fn keys(seed: u8) -> SessionKeys {
        SessionKeys::new(Zeroizing::new([seed; 32]), Aead::Aes128Gcm)
    }

    fn ends(gateway: &str, client: &str) -> OfferEnds {
        OfferEnds {
            gateway: gateway.parse().unwrap(),
            client: client.parse().unwrap(),
        }
    }

    #[test]
    fn an_offer_is_good_for_its_session_number_and_ends_alone() {
        let here = ends("192.0.2.1:40000", "198.51.100.7:7450");
        let offer = keys(1).join_offer(5, here);
        assert!(keys(1).is_join_offer(&offer, here));
        assert!(!keys(2).is_join_offer(&offer, here), "another session");
        for other in [
            ends("192.0.2.2:40000", "198.51.100.7:7450"),
            ends("192.0.2.1:40001", "198.51.100.7:7450"),
            ends("192.0.2.1:40000", "198.51.100.8:7450"),
            ends("192.0.2.1:40000", "198.51.100.7:7451"),
            ends("198.51.100.7:7450", "192.0.2.1:40000"),
        ] {
            assert!(!keys(1).is_join_offer(&offer, other), "{other:?}");
        }
        let renumbered = JoinOffer { number: 6, ..offer };
        assert!(!keys(1).is_join_offer(&renumbered, here));
        for place in 0..32 {
            let mut altered = offer;
            altered.code[place] ^= 1;
            assert!(!keys(1).is_join_offer(&altered, here), "byte {place}");
        }
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_both_of_its_forms() {
        let plain = ends("192.0.2.1:1", "198.51.100.7:2");
        let mapped = ends("[::ffff:192.0.2.1]:1", "[::ffff:198.51.100.7]:2");
        let offer = keys(1).join_offer(0, plain);
        assert!(keys(1).is_join_offer(&offer, mapped));
    }

    /// From RFC 5869 and RFC 2104 by another implementation:
    /// `hmac(expand(07…07, "hawser join offer"), …)`.
    #[test]
    fn an_offer_has_these_golden_bytes() {
        let offer = keys(7).join_offer(1, ends("192.0.2.1:40000", "198.51.100.7:7450"));
        assert_eq!(offer.code, GOLDEN);
    }

    const GOLDEN: [u8; 32] = [
        0x01, 0x70, 0x54, 0x64, 0x72, 0xcc, 0x82, 0x5a, 0xbd, 0x00, 0x52, 0xd8, 0x12, 0xea, 0xf2,
        0xa9, 0x20, 0x58, 0x05, 0x8f, 0x27, 0xaf, 0x5b, 0x3f, 0xbc, 0xb5, 0x33, 0x67, 0x9f, 0xdd,
        0xd4, 0x47,
    ];
}
