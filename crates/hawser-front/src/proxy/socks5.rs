//! SOCKS5 as bytes (RFC 1928): connections and datagrams, with a password (RFC 1929) or without.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::credentials::Credentials;
use super::parse::{Malformed, Parse};
use crate::destination::{Destination, Host};
use crate::transport::DialError;

/// How clients authenticate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    None,
    /// By user name and password.
    Password,
}

impl Method {
    const fn code(self) -> u8 {
        match self {
            Self::None => METHOD_NONE,
            Self::Password => METHOD_PASSWORD,
        }
    }

    /// Returns the answer to a greeting that offers this method.
    pub const fn accepted(self) -> [u8; 2] {
        [VERSION, self.code()]
    }
}

/// Reads the client's greeting, `5, n, n methods`, which must offer `wanted`.
pub fn parse_greeting(bytes: &[u8], wanted: Method) -> Parse<()> {
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
        Some(methods) if methods.contains(&wanted.code()) => Parse::Parsed {
            value: (),
            consumed: 2 + methods.len(),
        },
        Some(_) => Parse::Malformed(Malformed::AuthenticationMethod),
    }
}

/// Reads the client's login, `1, length, user name, length, password`, and tells whether
/// `credentials` admit it.
///
/// Source: RFC 1929 §2.
pub fn parse_login(bytes: &[u8], credentials: &Credentials) -> Parse<bool> {
    let Some((&version, rest)) = bytes.split_first() else {
        return Parse::Incomplete;
    };
    if version != LOGIN_VERSION {
        return Parse::Malformed(Malformed::Version);
    }
    let parts = take_counted(rest).and_then(|(user, rest)| {
        let (password, rest) = take_counted(rest)?;
        Some((user, password, rest))
    });
    match parts {
        Some((user, password, rest)) => Parse::Parsed {
            value: credentials.admits(user, password),
            consumed: bytes.len() - rest.len(),
        },
        None => Parse::Incomplete,
    }
}

/// Splits off the bytes that follow a one-byte count of them; returns them and the rest.
fn take_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(length))
}

/// Returns the answer to a login.
pub const fn login_reply(admitted: bool) -> [u8; 2] {
    [LOGIN_VERSION, if admitted { 0 } else { 1 }]
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A connection to a destination.
    Connect(Destination),
    /// A port for datagrams. The address is the one that the client will send from; it is
    /// unspecified, or its port is 0, if the client does not know.
    Associate(Destination),
}

/// Reads the client's request: `5, command, 0, type, address, port`.
pub fn parse_request(bytes: &[u8]) -> Parse<Request> {
    if bytes.first().is_some_and(|&version| version != VERSION) {
        return Parse::Malformed(Malformed::Version);
    }
    let Some((&[_, command, _, kind], rest)) = bytes.split_first_chunk() else {
        return Parse::Incomplete;
    };
    // The address type decides the length of the request, but an unsupported command is refused
    // without reading it.
    let request = match command {
        COMMAND_CONNECT => Request::Connect,
        COMMAND_ASSOCIATE => Request::Associate,
        _ => return Parse::Malformed(Malformed::Command),
    };
    match take_destination(kind, rest) {
        Parse::Parsed { value, consumed } => Parse::Parsed {
            value: request(value),
            consumed: bytes.len() - rest.len() + consumed,
        },
        Parse::Incomplete => Parse::Incomplete,
        Parse::Malformed(reason) => Parse::Malformed(reason),
    }
}

/// Reads a datagram that a client sends to its port: `0, 0, fragment, type, address, port`, then
/// the payload, which goes to that address.
///
/// # Errors
/// [`Malformed::Fragment`] for every fragment of a datagram, which proxies may refuse;
/// [`Malformed::Truncated`] if the header is incomplete.
pub fn parse_datagram(bytes: &[u8]) -> Result<(Destination, &[u8]), Malformed> {
    let Some((&[_, _, fragment, kind], rest)) = bytes.split_first_chunk() else {
        return Err(Malformed::Truncated);
    };
    if fragment != 0 {
        return Err(Malformed::Fragment);
    }
    match take_destination(kind, rest) {
        Parse::Parsed { value, consumed } => Ok((value, rest.get(consumed..).unwrap_or_default())),
        Parse::Incomplete => Err(Malformed::Truncated),
        Parse::Malformed(reason) => Err(reason),
    }
}

/// Writes the header of a datagram from `source` to the client at the end of `room`, directly
/// before the payload. Returns its length.
pub fn put_datagram_header(source: SocketAddr, room: &mut [u8; MAX_DATAGRAM_HEADER]) -> usize {
    let mut header = vec![0, 0, 0];
    put_address(source, &mut header);
    let start = room.len() - header.len();
    if let Some(end) = room.get_mut(start..) {
        end.copy_from_slice(&header);
    }
    header.len()
}

/// The longest header of a datagram to a client, in bytes.
pub const MAX_DATAGRAM_HEADER: usize = 22;

fn take_destination(kind: u8, bytes: &[u8]) -> Parse<Destination> {
    let (host, rest) = match kind {
        TYPE_IPV4 => match bytes.split_first_chunk::<4>() {
            Some((octets, rest)) => (Host::Ip(Ipv4Addr::from(*octets).into()), rest),
            None => return Parse::Incomplete,
        },
        TYPE_IPV6 => match bytes.split_first_chunk::<16>() {
            Some((octets, rest)) => (Host::Ip(Ipv6Addr::from(*octets).into()), rest),
            None => return Parse::Incomplete,
        },
        TYPE_NAME => {
            let Some((&length, rest)) = bytes.split_first() else {
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

fn put_address(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(TYPE_IPV4);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(TYPE_IPV6);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// The answer to a greeting without an acceptable method.
pub const METHOD_REFUSED: [u8; 2] = [VERSION, 0xff];

/// Returns the answer to a request. The bound address is left empty: it is known only at the far
/// end, and no client needs it for CONNECT.
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

/// Returns the answer to a request for a port for datagrams: the address that the client sends to.
pub fn associated(port: SocketAddr) -> Vec<u8> {
    let mut reply = vec![VERSION, 0, 0];
    put_address(port, &mut reply);
    reply
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
        // "TTL expired", as other proxies use it.
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
const METHOD_PASSWORD: u8 = 2;
const LOGIN_VERSION: u8 = 1;
const COMMAND_CONNECT: u8 = 1;
const COMMAND_ASSOCIATE: u8 = 3;
const TYPE_IPV4: u8 = 1;
const TYPE_NAME: u8 = 3;
const TYPE_IPV6: u8 = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn greeting_needs_the_method_that_the_port_takes() {
        for (wanted, other) in [(Method::None, 2), (Method::Password, 0)] {
            let parse = |bytes: &[u8]| parse_greeting(bytes, wanted);
            assert_eq!(parse(&[5, 2, 2, 0, 5]).unwrap(), ((), 4));
            assert_eq!(parse(&[5, 2, 2]), Parse::Incomplete);
            for bytes in [&[5, 1, other][..], &[5, 0]] {
                let reason = parse(bytes).malformed();
                assert_eq!(reason, Malformed::AuthenticationMethod);
            }
            assert_eq!(parse(&[4, 1]).malformed(), Malformed::Version);
        }
        assert_eq!(Method::None.accepted(), [5, 0]);
        assert_eq!(Method::Password.accepted(), [5, 2]);
    }

    #[test]
    fn a_login_is_read_to_its_end_and_not_beyond() {
        let credentials = Credentials::parse("me:secret").unwrap();
        let right = b"\x01\x02me\x06secret";
        for end in 0..right.len() {
            assert_eq!(parse_login(&right[..end], &credentials), Parse::Incomplete);
        }
        let more = [&right[..], b"\x05\x01"].concat();
        assert_eq!(
            parse_login(&more, &credentials).unwrap(),
            (true, right.len())
        );
        let wrong = b"\x01\x02me\x06Secret";
        assert_eq!(
            parse_login(wrong, &credentials).unwrap(),
            (false, wrong.len())
        );
        assert_eq!(parse_login(b"\x01\0\0", &credentials).unwrap(), (false, 3));
        assert_eq!(
            parse_login(b"\x05", &credentials).malformed(),
            Malformed::Version
        );
        assert_eq!((login_reply(true), login_reply(false)), ([1, 0], [1, 1]));
    }

    #[test]
    fn requests_of_each_address_type() {
        let parse = |bytes: &[u8]| match parse_request(bytes).unwrap() {
            (Request::Connect(destination), consumed) => (destination.to_string(), consumed),
            (other, _) => panic!("not a connection: {other:?}"),
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
    fn a_datagram_and_the_answers_around_it_have_these_bytes() {
        let port: SocketAddr = "127.0.0.1:4660".parse().unwrap();
        assert_eq!(associated(port), [5, 0, 0, 1, 127, 0, 0, 1, 0x12, 0x34]);
        let request = [5, 3, 0, 1, 0, 0, 0, 0, 0, 0];
        let anywhere = "0.0.0.0:0".parse().unwrap();
        assert_eq!(
            parse_request(&request).unwrap(),
            (Request::Associate(anywhere), 10)
        );
        let datagram = b"\0\0\0\x03\x0bexample.org\0\x35query";
        let (destination, payload) = parse_datagram(datagram).unwrap();
        assert_eq!(destination.to_string(), "example.org:53");
        assert_eq!(payload, b"query");
        let fragment = b"\0\0\x81\x01\x7f\0\0\x01\0\x35query";
        assert_eq!(parse_datagram(fragment), Err(Malformed::Fragment));
        assert_eq!(
            parse_datagram(&[0, 0, 0, 2, 1, 1]),
            Err(Malformed::AddressType)
        );
    }

    #[test]
    fn faults_get_their_reply_codes() {
        let code = |bytes: &[u8]| {
            let reason = parse_request(bytes).malformed();
            reply(Err(Failure::Malformed(reason)))[1]
        };
        assert_eq!(code(&[5, 2, 0, 1]), 7, "bind");
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
            let expected = Destination::new(name.parse().unwrap(), port);
            prop_assert_eq!(destination, Request::Connect(expected));
            prop_assert_eq!(consumed, bytes.len());
        }

        #[test]
        fn datagrams_round_trip(ip: IpAddr, port: u16, payload: Vec<u8>) {
            let mut room = [0xaa; MAX_DATAGRAM_HEADER];
            let length = put_datagram_header(SocketAddr::new(ip, port), &mut room);
            let bytes = [&room[MAX_DATAGRAM_HEADER - length..], &payload].concat();
            let expected = Destination::new(Host::Ip(ip), port);
            prop_assert_eq!(parse_datagram(&bytes), Ok((expected, &payload[..])));
            for end in 0..length {
                prop_assert_eq!(parse_datagram(&bytes[..end]), Err(Malformed::Truncated));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzzing::fuzz_socks5(&bytes);
            crate::fuzzing::fuzz_socks5_datagram(&bytes);
        }
    }
}
