//! SOCKS5 as bytes (RFC 1928), without authentication.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::parse::{Malformed, Parse};
use crate::destination::{Destination, Host};
use crate::transport::DialError;

/// Reads the client's greeting: `5, n, n methods`.
pub fn parse_greeting(bytes: &[u8]) -> Parse<()> {
    let Some((&version, rest)) = bytes.split_first() else {
        return Parse::Incomplete;
    };
    if version != VERSION {
        return Parse::Malformed(Malformed::Version);
    }
    let Some((&count, rest)) = rest.split_first() else {
        return Parse::Incomplete;
    };
    match rest.get(..usize::from(count)) {
        None => Parse::Incomplete,
        Some(methods) if methods.contains(&METHOD_NONE) => Parse::Parsed {
            value: (),
            consumed: 2 + methods.len(),
        },
        Some(_) => Parse::Malformed(Malformed::AuthenticationMethod),
    }
}

/// Reads the client's request: `5, command, 0, type, address, port`.
pub fn parse_request(bytes: &[u8]) -> Parse<Destination> {
    if bytes.first().is_some_and(|&version| version != VERSION) {
        return Parse::Malformed(Malformed::Version);
    }
    let Some((&[_, command, _, kind], rest)) = bytes.split_first_chunk() else {
        return Parse::Incomplete;
    };
    // The address decides how long the request is, but a command that nobody serves is refused
    // without it.
    if command != COMMAND_CONNECT {
        return Parse::Malformed(Malformed::Command);
    }
    let (host, rest) = match kind {
        TYPE_IPV4 => match rest.split_first_chunk::<4>() {
            Some((octets, rest)) => (Host::Ip(Ipv4Addr::from(*octets).into()), rest),
            None => return Parse::Incomplete,
        },
        TYPE_IPV6 => match rest.split_first_chunk::<16>() {
            Some((octets, rest)) => (Host::Ip(Ipv6Addr::from(*octets).into()), rest),
            None => return Parse::Incomplete,
        },
        TYPE_NAME => {
            let Some((&length, rest)) = rest.split_first() else {
                return Parse::Incomplete;
            };
            match rest.split_at_checked(usize::from(length)) {
                None => return Parse::Incomplete,
                Some((name, rest)) => match Host::from_name_bytes(name) {
                    Ok(host) => (host, rest),
                    Err(_) => return Parse::Malformed(Malformed::Host),
                },
            }
        }
        _ => return Parse::Malformed(Malformed::AddressType),
    };
    match rest.split_first_chunk::<2>() {
        None => Parse::Incomplete,
        Some((port, rest)) => Parse::Parsed {
            value: Destination::new(host, u16::from_be_bytes(*port)),
            consumed: bytes.len() - rest.len(),
        },
    }
}

/// The answer to a greeting: no authentication.
pub const METHOD_ACCEPTED: [u8; 2] = [VERSION, METHOD_NONE];
/// The answer to a greeting without an acceptable method.
pub const METHOD_REFUSED: [u8; 2] = [VERSION, 0xff];

/// The answer to a request. The bound address is left empty: it is known only at the far end, and
/// for CONNECT nobody needs it.
pub fn reply(result: Result<(), Failure>) -> [u8; 10] {
    let code = match result {
        Ok(()) => 0,
        Err(Failure::Dial(error)) => dial_reply(error),
        Err(Failure::Malformed(Malformed::Command)) => 7,
        Err(Failure::Malformed(Malformed::AddressType)) => 8,
        Err(Failure::Malformed(_)) => 1,
    };
    [VERSION, code, 0, TYPE_IPV4, 0, 0, 0, 0, 0, 0]
}

/// Why a request was not fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The destination could not be reached.
    Dial(DialError),
    /// The request itself is at fault.
    Malformed(Malformed),
}

const fn dial_reply(error: DialError) -> u8 {
    match error {
        DialError::RefusedByPolicy => 2,
        DialError::NetworkUnreachable => 3,
        DialError::HostUnreachable | DialError::NameNotFound => 4,
        DialError::ConnectionRefused => 5,
        // "TTL expired", which is what other proxies use for it.
        DialError::TimedOut => 6,
        DialError::GatewayUnavailable
        | DialError::LimitReached
        | DialError::Aborted
        | DialError::Internal
        | DialError::MalformedDestination
        | DialError::ResolverUnavailable => 1,
    }
}

const VERSION: u8 = 5;
const METHOD_NONE: u8 = 0;
const COMMAND_CONNECT: u8 = 1;
const TYPE_IPV4: u8 = 1;
const TYPE_NAME: u8 = 3;
const TYPE_IPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greeting_needs_the_method_without_authentication() {
        assert_eq!(parse_greeting(&[5, 2, 2, 0, 5]).unwrap(), ((), 4));
        assert_eq!(parse_greeting(&[5, 2, 2]), Parse::Incomplete);
        assert_eq!(
            parse_greeting(&[5, 1, 2]).malformed(),
            Malformed::AuthenticationMethod
        );
        assert_eq!(
            parse_greeting(&[5, 0]).malformed(),
            Malformed::AuthenticationMethod
        );
        assert_eq!(parse_greeting(&[4, 1]).malformed(), Malformed::Version);
    }

    #[test]
    fn requests_of_each_address_type() {
        let parse = |bytes: &[u8]| {
            let (destination, consumed) = parse_request(bytes).unwrap();
            (destination.to_string(), consumed)
        };
        let v4 = [5, 1, 0, 1, 192, 0, 2, 1, 0, 80, b'x'];
        assert_eq!(parse(&v4), ("192.0.2.1:80".into(), 10));
        let name = b"\x05\x01\x00\x03\x0bexample.org\x01\xbb";
        assert_eq!(parse(name), ("example.org:443".into(), 18));
        let literal = b"\x05\x01\x00\x03\x0b2001:db8::1\x01\xbb";
        assert_eq!(parse(literal), ("[2001:db8::1]:443".into(), 18));
        let mut v6 = vec![5, 1, 0, 4];
        v6.extend([0; 15]);
        v6.extend([1, 0, 80]);
        assert_eq!(parse(&v6), ("[::1]:80".into(), 22));
    }

    #[test]
    fn faults_get_their_reply_codes() {
        let code = |bytes: &[u8]| {
            let reason = parse_request(bytes).malformed();
            reply(Err(Failure::Malformed(reason)))[1]
        };
        assert_eq!(code(&[5, 2, 0, 1]), 7, "bind");
        assert_eq!(code(&[5, 3, 0, 1]), 7, "udp associate");
        assert_eq!(code(&[5, 1, 0, 2]), 8);
        assert_eq!(code(b"\x05\x01\x00\x03\x01 \x00\x50"), 1);
        assert_eq!(code(b"\x05\x01\x00\x03\x00\x00\x50"), 1);
        assert_eq!(reply(Ok(()))[1], 0);
        assert_eq!(
            reply(Err(Failure::Dial(DialError::ConnectionRefused)))[1],
            5
        );
    }

    proptest! {
        #[test]
        fn every_proper_prefix_is_incomplete(name in "[a-z]{1,63}", port: u16) {
            let mut bytes = vec![5, 1, 0, 3, name.len() as u8];
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(&port.to_be_bytes());
            for end in 0..bytes.len() {
                prop_assert_eq!(parse_request(&bytes[..end]), Parse::Incomplete);
            }
            let (destination, consumed) = parse_request(&bytes).unwrap();
            prop_assert_eq!(destination.to_string(), format!("{name}:{port}"));
            prop_assert_eq!(consumed, bytes.len());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::fuzz_socks5(&bytes);
        }
    }
}
