//! SOCKS4 and SOCKS4a as bytes.

use std::net::Ipv4Addr;

use super::parse::{Malformed, Parse};
use crate::destination::{Destination, Host, HostName};

/// Reads the client's request: `4, command, port, address, user id, 0` and, where the address is
/// 0.0.0.x with x not 0 (SOCKS4a), `name, 0`.
pub fn parse_request(bytes: &[u8]) -> Parse<Destination> {
    if bytes.first().is_some_and(|&version| version != VERSION) {
        return Parse::Malformed(Malformed::Version);
    }
    if bytes
        .get(1)
        .is_some_and(|&command| command != COMMAND_CONNECT)
    {
        return Parse::Malformed(Malformed::Command);
    }
    let Some((&[_, _, port_high, port_low, a, b, c, d], rest)) = bytes.split_first_chunk() else {
        return Parse::Incomplete;
    };
    let rest = match terminated(rest, MAX_USER_ID_LENGTH, Malformed::UserId) {
        Parse::Parsed { consumed, .. } => rest.get(consumed..).unwrap_or_default(),
        Parse::Incomplete => return Parse::Incomplete,
        Parse::Malformed(reason) => return Parse::Malformed(reason),
    };
    let (host, rest) = match [a, b, c, d] {
        [0, 0, 0, 1..=255] => match terminated(rest, HostName::MAX_LENGTH, Malformed::Host) {
            Parse::Parsed { value, consumed } => match Host::from_name_bytes(value) {
                Ok(host) => (host, rest.get(consumed..).unwrap_or_default()),
                Err(_) => return Parse::Malformed(Malformed::Host),
            },
            Parse::Incomplete => return Parse::Incomplete,
            Parse::Malformed(reason) => return Parse::Malformed(reason),
        },
        octets => (Host::Ip(Ipv4Addr::from(octets).into()), rest),
    };
    Parse::Parsed {
        value: Destination::new(host, u16::from_be_bytes([port_high, port_low])),
        consumed: bytes.len() - rest.len(),
    }
}

/// Returns the answer to a request. The protocol has success and one general failure; its other
/// codes are about identification.
pub const fn reply(granted: bool) -> [u8; 8] {
    let code = if granted { 0x5a } else { 0x5b };
    [0, code, 0, 0, 0, 0, 0, 0]
}

/// Returns the bytes before a zero; fails with `too_long` without a zero in the first `max + 1`.
fn terminated(bytes: &[u8], max: usize, too_long: Malformed) -> Parse<&[u8]> {
    match bytes.iter().take(max + 1).position(|&byte| byte == 0) {
        Some(length) => Parse::Parsed {
            value: &bytes[..length],
            consumed: length + 1,
        },
        None if bytes.len() > max => Parse::Malformed(too_long),
        None => Parse::Incomplete,
    }
}

const VERSION: u8 = 4;
const COMMAND_CONNECT: u8 = 1;
const MAX_USER_ID_LENGTH: usize = 255;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_and_4a_requests() {
        let parse = |bytes: &[u8]| {
            let (destination, consumed) = parse_request(bytes).unwrap();
            (destination.to_string(), consumed)
        };
        let plain = b"\x04\x01\x00\x50\xc0\x00\x02\x01user\x00rest";
        assert_eq!(parse(plain), ("192.0.2.1:80".into(), 13));
        let named = b"\x04\x01\x01\xbb\x00\x00\x00\x07\x00example.org\x00rest";
        assert_eq!(parse(named), ("example.org:443".into(), 21));
    }

    #[test]
    fn faults_are_told_apart() {
        assert_eq!(parse_request(&[5]).malformed(), Malformed::Version);
        assert_eq!(parse_request(&[4, 2]).malformed(), Malformed::Command);
        let mut endless = vec![4, 1, 0, 80, 1, 2, 3, 4];
        endless.extend([b'u'; 256]);
        assert_eq!(parse_request(&endless).malformed(), Malformed::UserId);
        let mut endless = vec![4, 1, 0, 80, 0, 0, 0, 1, 0];
        endless.extend([b'n'; 256]);
        assert_eq!(parse_request(&endless).malformed(), Malformed::Host);
        let nameless = [4, 1, 0, 80, 0, 0, 0, 1, 0, 0];
        assert_eq!(parse_request(&nameless).malformed(), Malformed::Host);
    }

    proptest! {
        #[test]
        fn every_proper_prefix_is_incomplete(name in "[a-z]{1,63}", user in "[a-z]{0,20}") {
            let head = b"\x04\x01\x00\x50\x00\x00\x00\x01";
            let bytes = [head, user.as_bytes(), b"\0", name.as_bytes(), b"\0"].concat();
            for end in 0..bytes.len() {
                prop_assert_eq!(parse_request(&bytes[..end]), Parse::Incomplete);
            }
            let (destination, consumed) = parse_request(&bytes).unwrap();
            prop_assert_eq!(destination.to_string(), format!("{name}:80"));
            prop_assert_eq!(consumed, bytes.len());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            crate::fuzzing::fuzz_socks4(&bytes);
        }
    }
}
