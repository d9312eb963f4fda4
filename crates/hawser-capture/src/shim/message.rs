//! Protocol between the shim and the daemon: one request and one answer on a connection.
//!
//! Numbers are big-endian except the cookie, which is little-endian. IPv4 addresses fill the first
//! four bytes of the address, the rest is zero.
//!
//! | request, bytes | meaning |
//! |---|---|
//! | 0–3 | `hwsr` |
//! | 4 | version, 1 |
//! | 5 | 1: a connection is about to be made; 2: the original destination; 3: which address |
//! | | answers for this name server; 4: for which name server does this address answer; |
//! | | 5: a datagram is about to be sent |
//! | 6 | family of the address: 4 or 6; for 2: 0 |
//! | 7 | 0 |
//! | 8–23 | the secret of this daemon |
//! | 24–31 | the socket's cookie; for 3, 4 and 5: 0 |
//! | 32–33 | port |
//! | 34–49 | address |
//!
//! | answer, bytes | meaning |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | 0: as asked; 1: connect to the daemon; 2: the address asked for; 3: refused |
//! | 2 | family, as above |
//! | 3 | 0 |
//! | 4–5 | port |
//! | 6–21 | address |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A request of the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Secret of the daemon.
    pub token: [u8; TOKEN_LENGTH],
    /// Cookie of the socket, unique until the next boot; 0 if the request concerns no socket.
    pub cookie: u64,
    /// The question.
    pub operation: Operation,
}

/// A question about a socket, or about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The socket is about to connect to this address: may it, or does the daemon take the
    /// connection?
    Connect(SocketAddr),
    /// The socket is connected to the daemon: what is the original destination?
    Peer,
    /// Which address of the daemon answers for this name server?
    StubOf(SocketAddr),
    /// For which name server does this address of the daemon answer?
    ServerAt(SocketAddr),
    /// May a datagram go to this address?
    Datagram(SocketAddr),
}

/// An answer to the shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Do as the program asked.
    Leave,
    /// Connect to the daemon.
    Redirect,
    /// The requested address.
    Address(SocketAddr),
    /// The program may not connect or send there.
    Refuse,
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The request has the wrong magic number.
    #[error("not a request of the preloaded library")]
    Magic,
    /// An unknown version.
    #[error("unknown version {0}")]
    Version(u8),
    /// An unknown operation.
    #[error("unknown operation {0}")]
    Operation(u8),
    /// An unknown address family.
    #[error("unknown address family {0}")]
    Family(u8),
    /// A reserved field that is not zero, a cookie of zero, or port 0.
    #[error("a reserved field is not 0, or the cookie or port is 0")]
    Field,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn read(bytes: &[u8; REQUEST_LENGTH]) -> Result<Self, Malformed> {
        let [
            b'h',
            b'w',
            b's',
            b'r',
            version,
            operation,
            family,
            zero,
            rest @ ..,
        ] = bytes
        else {
            return Err(Malformed::Magic);
        };
        if *version != VERSION {
            return Err(Malformed::Version(*version));
        }
        let (token, rest) = rest.split_first_chunk().ok_or(Malformed::Field)?;
        let (cookie, rest) = rest.split_first_chunk().ok_or(Malformed::Field)?;
        let cookie = u64::from_le_bytes(*cookie);
        let is_about_socket = matches!(operation, 1 | 2);
        if (cookie == 0) == is_about_socket || *zero != 0 {
            return Err(Malformed::Field);
        }
        let operation = match operation {
            1 => Operation::Connect(read_address(*family, rest)?),
            2 if *family != 0 => return Err(Malformed::Family(*family)),
            2 if rest.iter().any(|&byte| byte != 0) => return Err(Malformed::Field),
            2 => Operation::Peer,
            3 => Operation::StubOf(read_address(*family, rest)?),
            4 => Operation::ServerAt(read_address(*family, rest)?),
            5 => Operation::Datagram(read_address(*family, rest)?),
            other => return Err(Malformed::Operation(*other)),
        };
        Ok(Self {
            token: *token,
            cookie,
            operation,
        })
    }

    /// Encodes the request.
    pub fn to_bytes(&self) -> [u8; REQUEST_LENGTH] {
        let mut bytes = [0; REQUEST_LENGTH];
        bytes[..5].copy_from_slice(&[b'h', b'w', b's', b'r', VERSION]);
        bytes[8..24].copy_from_slice(&self.token);
        bytes[24..32].copy_from_slice(&self.cookie.to_le_bytes());
        let (operation, address) = match self.operation {
            Operation::Connect(address) => (1, Some(address)),
            Operation::Peer => (2, None),
            Operation::StubOf(server) => (3, Some(server)),
            Operation::ServerAt(stub) => (4, Some(stub)),
            Operation::Datagram(to) => (5, Some(to)),
        };
        bytes[5] = operation;
        if let Some(address) = address {
            bytes[6] = write_address(address, &mut bytes[32..]);
        }
        bytes
    }
}

impl Answer {
    pub(super) fn to_bytes(self) -> [u8; ANSWER_LENGTH] {
        let mut bytes = [0; ANSWER_LENGTH];
        bytes[0] = VERSION;
        match self {
            Self::Leave => {}
            Self::Redirect => bytes[1] = 1,
            Self::Refuse => bytes[1] = 3,
            Self::Address(address) => {
                bytes[1] = 2;
                bytes[2] = write_address(address, &mut bytes[4..]);
            }
        }
        bytes
    }
}

/// Reads a port and an address, which must be all of `bytes`.
fn read_address(family: u8, bytes: &[u8]) -> Result<SocketAddr, Malformed> {
    let (port, address) = bytes.split_first_chunk().ok_or(Malformed::Field)?;
    let address: [u8; 16] = address.try_into().map_err(|_| Malformed::Field)?;
    let (v4, rest) = address.split_first_chunk::<4>().ok_or(Malformed::Field)?;
    let ip = match family {
        4 if rest.iter().any(|&byte| byte != 0) => return Err(Malformed::Field),
        4 => IpAddr::from(Ipv4Addr::from(*v4)),
        6 => IpAddr::from(Ipv6Addr::from(address)),
        other => return Err(Malformed::Family(other)),
    };
    match u16::from_be_bytes(*port) {
        0 => Err(Malformed::Field),
        port => Ok(SocketAddr::new(ip, port)),
    }
}

/// Writes a port and an address; returns the family.
fn write_address(address: SocketAddr, out: &mut [u8]) -> u8 {
    out[..2].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            out[2..6].copy_from_slice(&ip.octets());
            4
        }
        IpAddr::V6(ip) => {
            out[2..18].copy_from_slice(&ip.octets());
            6
        }
    }
}

/// Bytes of a request.
pub const REQUEST_LENGTH: usize = 50;
/// Bytes of an answer.
pub const ANSWER_LENGTH: usize = 22;
/// Bytes of the secret.
pub(super) const TOKEN_LENGTH: usize = 16;
const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn connect(to: &str) -> Request {
        Request {
            token: *b"0123456789abcdef",
            cookie: 0x0102,
            operation: Operation::Connect(to.parse().unwrap()),
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_table() {
        let mut expected = b"hwsr\x01\x01\x04\x000123456789abcdef".to_vec();
        expected.extend([2, 1, 0, 0, 0, 0, 0, 0, 0, 80, 192, 0, 2, 1]);
        expected.resize(REQUEST_LENGTH, 0);
        assert_eq!(connect("192.0.2.1:80").to_bytes().to_vec(), expected);
        let answer = Answer::Address("192.0.2.1:80".parse().unwrap()).to_bytes();
        assert_eq!(answer[..11], [1, 2, 4, 0, 0, 80, 192, 0, 2, 1, 0]);
        assert_eq!(Answer::Redirect.to_bytes()[..3], [1, 1, 0]);
        assert_eq!(Answer::Refuse.to_bytes()[..3], [1, 3, 0]);
        assert_eq!(Answer::Leave.to_bytes()[..3], [1, 0, 0]);
    }

    #[test]
    fn a_question_about_an_address_is_about_no_socket() {
        let mut bytes = connect("192.0.2.1:53").to_bytes();
        bytes[24..32].fill(0);
        assert_eq!(Request::read(&bytes), Err(Malformed::Field));
        for (operation, expected) in [
            (3, Operation::StubOf("192.0.2.1:53".parse().unwrap())),
            (4, Operation::ServerAt("192.0.2.1:53".parse().unwrap())),
            (5, Operation::Datagram("192.0.2.1:53".parse().unwrap())),
        ] {
            bytes[5] = operation;
            assert_eq!(Request::read(&bytes).unwrap().operation, expected);
        }
        bytes[5] = 6;
        assert_eq!(Request::read(&bytes), Err(Malformed::Operation(6)));
    }

    #[test]
    fn each_fault_has_its_name() {
        let with = |index: usize, byte: u8| {
            let mut bytes = connect("192.0.2.1:80").to_bytes();
            bytes[index] = byte;
            Request::read(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b'x'), Malformed::Magic);
        assert_eq!(with(4, 9), Malformed::Version(9));
        assert_eq!(with(5, 3), Malformed::Field, "with the cookie of a socket");
        assert_eq!(with(6, 5), Malformed::Family(5));
        assert_eq!(with(7, 1), Malformed::Field);
        assert_eq!(with(49, 1), Malformed::Field, "beyond an IPv4 address");
        let mut no_port = connect("192.0.2.1:80").to_bytes();
        no_port[33] = 0;
        assert_eq!(Request::read(&no_port), Err(Malformed::Field));
    }

    #[test]
    fn every_file_of_the_corpus_that_is_read_is_written_the_same() {
        let folder = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fuzz/corpus/shim_request"
        );
        let mut good = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            for request in bytes.chunks_exact(REQUEST_LENGTH) {
                let request = request.try_into().unwrap();
                if let Ok(read) = Request::read(&request) {
                    assert_eq!(read.to_bytes(), request);
                    good += 1;
                }
            }
        }
        assert!(good >= 5, "the corpus is gone, or contains no request");
    }

    proptest! {
        #[test]
        fn whatever_is_read_is_written_the_same(
            bytes in any::<[u8; REQUEST_LENGTH - 6]>(),
            operation in 1..=5_u8,
        ) {
            let mut request = *b"hwsr\x01\x01............................................";
            request[5] = operation;
            request[6..].copy_from_slice(&bytes);
            request[6] = [0, 4, 6][usize::from(bytes[0] % 3)];
            request[7] = 0;
            if request[6] == 4 {
                request[38..].fill(0);
            }
            if operation > 2 {
                request[24..32].fill(0);
            }
            if let Ok(read) = Request::read(&request) {
                prop_assert_eq!(read.to_bytes(), request);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in any::<[u8; REQUEST_LENGTH]>()) {
            let _ = Request::read(&bytes);
        }
    }
}
