//! The kernel's socket diagnosis: counters of sockets, and the abort of connections.
//!
//! Source: sock_diag(7) and the kernel's `linux/inet_diag.h`.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hawser_path::Segments;
use socket2::{Domain, Protocol, Socket, Type};

/// Connection to the diagnosis of the network namespace in which it was created.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    socket: Socket,
    buffer: Vec<u8>,
}

/// A socket of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    family: u8,
    /// Identity in the kernel; the last eight bytes are its cookie.
    id: [u8; ID],
    /// Bytes acknowledged and received, for a stream.
    pub(crate) moved: Option<(u64, u64)>,
    /// Segments of a stream.
    pub(crate) segments: Option<Segments>,
    /// Time since the last data or acknowledgement, for a stream that has moved data.
    pub(crate) heard: Option<Duration>,
}

impl Diagnosis {
    pub(crate) fn open() -> io::Result<Self> {
        let protocol = Protocol::from(libc::NETLINK_SOCK_DIAG);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::DGRAM, Some(protocol))?;
        // The kernel answers immediately or never.
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let buffer = vec![0; BUFFER];
        Ok(Self { socket, buffer })
    }

    /// Lists the sockets of both families with this `protocol` in one of `states`, a mask of the
    /// kernel's numbers, by their cookies.
    pub(crate) fn list(&mut self, protocol: i32, states: u32) -> io::Result<BTreeMap<u64, Found>> {
        let mut all = BTreeMap::new();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = request(DUMP, family as u8, protocol as u8, states, &[0; ID]);
            self.socket.send(&request)?;
            while !self.receive(&mut all)? {}
        }
        Ok(all)
    }

    /// Returns the TCP socket at `local` connected to `remote`; `None` if there is none.
    pub(crate) fn find(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> io::Result<Option<Found>> {
        let family = match local {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        let id = identity(local, remote);
        let request = request(ONE, family as u8, libc::IPPROTO_TCP as u8, u32::MAX, &id);
        self.socket.send(&request)?;
        let mut found = BTreeMap::new();
        match self.receive(&mut found) {
            Ok(_) => Ok(found.into_values().next()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Aborts a TCP socket; its program gets an error.
    pub(crate) fn destroy(&mut self, found: &Found) -> io::Result<()> {
        let protocol = libc::IPPROTO_TCP as u8;
        let request = request(DESTROY, found.family, protocol, u32::MAX, &found.id);
        self.socket.send(&request)?;
        self.receive(&mut BTreeMap::new()).map(drop)
    }

    /// Reads one message of the kernel; returns whether it was the last. An error in it is the
    /// kernel's answer.
    fn receive(&mut self, all: &mut BTreeMap<u64, Found>) -> io::Result<bool> {
        let length = (&self.socket).read(&mut self.buffer)?;
        let mut rest = self.buffer.get(..length).unwrap_or_default();
        while let Some((kind, body, behind)) = message(rest) {
            rest = behind;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    let code = body
                        .first_chunk()
                        .map_or(0, |code| i32::from_ne_bytes(*code));
                    return match code {
                        0 => Ok(true),
                        code => Err(io::Error::from_raw_os_error(-code)),
                    };
                }
                _ => all.extend(Found::read(body).map(|found| (found.cookie(), found))),
            }
        }
        Ok(false)
    }
}

impl Found {
    /// Reads the body of an answer: family, state and two more bytes, the identity, five numbers,
    /// then attributes.
    fn read(body: &[u8]) -> Option<Self> {
        let id = *body.get(4..)?.first_chunk()?;
        let mut attributes = body.get(ANSWER..).unwrap_or_default();
        let (mut moved, mut heard, mut segments) = (None, None, None);
        while let Some((kind, value, behind)) = attribute(attributes) {
            attributes = behind;
            if kind == INFO {
                moved = number(value, BYTES_ACKED).zip(number(value, BYTES_RECEIVED));
                let count = |place| {
                    let bytes = value.get(place..)?.first_chunk()?;
                    Some(u64::from(u32::from_ne_bytes(*bytes)))
                };
                segments = count(DELIVERED)
                    .zip(count(TOTAL_RETRANS))
                    .map(|(delivered, again)| Segments { delivered, again });
                let since = |place| millis(value, place);
                heard = since(LAST_DATA_RECEIVED).min(since(LAST_ACK_RECEIVED));
            }
        }
        let family = *body.first()?;
        let has_moved = moved.is_some_and(|moved| moved != (0, 0));
        Some(Self {
            family,
            id,
            moved,
            segments,
            heard: heard.filter(|_| has_moved),
        })
    }

    pub(crate) fn cookie(&self) -> u64 {
        number(&self.id, ID - 8).unwrap_or_default()
    }

    /// Returns the interface that the socket is bound to; 0 for none.
    pub(crate) fn bound_to(&self) -> u32 {
        let bytes = self.id.get(36..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

/// Splits off the first message: its type, its body and the rest.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
    let body = bytes.get(HEADER..length)?;
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, body, behind))
}

/// Splits off the first attribute: its type, its value and the rest.
fn attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
    let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?);
    let value = bytes.get(4..length)?;
    let behind = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, value, behind))
}

fn number(bytes: &[u8], place: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(place..)?.first_chunk()?))
}

fn millis(bytes: &[u8], place: usize) -> Option<Duration> {
    let millis = u32::from_ne_bytes(*bytes.get(place..)?.first_chunk()?);
    Some(Duration::from_millis(millis.into()))
}

/// Builds the identity of a socket by its addresses, on any interface and with any cookie.
fn identity(local: SocketAddr, remote: SocketAddr) -> [u8; ID] {
    let mut id = [0; ID];
    id[..2].copy_from_slice(&local.port().to_be_bytes());
    id[2..4].copy_from_slice(&remote.port().to_be_bytes());
    for (at, address) in [(4, local), (20, remote)] {
        match address.ip() {
            IpAddr::V4(ip) => id[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => id[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    id[40..].fill(0xff);
    id
}

/// Builds a message header and `struct inet_diag_req_v2`.
fn request(
    (kind, flags): (u16, u16),
    family: u8,
    protocol: u8,
    states: u32,
    id: &[u8; ID],
) -> Vec<u8> {
    let length = (HEADER + 8 + ID) as u32;
    let mut request = Vec::with_capacity(HEADER + 8 + ID);
    request.extend(length.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence number and sender are zero: there is one request at a time.
    request.extend([0; 8]);
    request.extend([family, protocol, 1 << (INFO - 1), 0]);
    request.extend(states.to_ne_bytes());
    request.extend(id);
    request
}

/// `struct inet_diag_sockid`: ports, addresses, interface, cookie.
const ID: usize = 48;
const HEADER: usize = 16;
/// `struct inet_diag_msg`.
const ANSWER: usize = 4 + ID + 20;
/// Type and flags of a request: `SOCK_DIAG_BY_FAMILY` with `NLM_F_REQUEST`.
const ONE: (u16, u16) = (20, 0x1);
/// `SOCK_DIAG_BY_FAMILY` with `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP: (u16, u16) = (20, 0x301);
/// `SOCK_DESTROY` with `NLM_F_REQUEST | NLM_F_ACK`.
const DESTROY: (u16, u16) = (21, 0x5);
/// `INET_DIAG_INFO`: an attribute that holds `struct tcp_info`.
const INFO: u16 = 2;
/// Offsets in `struct tcp_info`. The time since an event that never happened is very long.
const LAST_DATA_RECEIVED: usize = 52;
const LAST_ACK_RECEIVED: usize = 56;
const TOTAL_RETRANS: usize = 100;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const DELIVERED: usize = 192;
/// Maximum size of a part of the kernel's dump.
const BUFFER: usize = 64 * 1024;
const PATIENCE: Duration = Duration::from_secs(2);
