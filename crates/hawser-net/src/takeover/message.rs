//! Messages between a process and its successor.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use bytes::{Buf as _, BufMut as _, BytesMut};
use hawser_sctp::Local;
use hawser_types::LinkIndex;
use hawser_wire::{JOIN_OFFER_LENGTH, JOIN_PRELUDE_LENGTH};

/// A message; some carry a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// To the successor, with a descriptor: a listening socket.
    Listener,
    /// To the successor, with a descriptor: the locked file of the state directory.
    Lock,
    /// To the successor: hosts that are known by name connect to the predecessor at this address.
    Door(SocketAddr),
    /// To the successor: the last of the initial messages. The predecessor listens at this address.
    Begin(Option<SocketAddr>),
    /// To the predecessor: release what only one process can have, such as network devices.
    Yield,
    /// To the successor: these resources are released.
    Yielded,
    /// To the predecessor: the successor now serves.
    Ready,
    /// To the predecessor, with a descriptor: a connection joining a session, and its first bytes.
    Join(Join),
    /// To the predecessor, with a descriptor: a connection that a gateway has begun for a session,
    /// and its first bytes.
    Offer(Offer),
    /// To the predecessor: datagrams that no key decrypts.
    Datagrams(Datagrams),
    /// To the successor, periodically: the load that the predecessor still serves.
    Left(Left),
}

/// A connection that joins a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Join {
    /// The port at which the connection arrived.
    pub port: PortOf,
    /// The first bytes of the connection.
    pub(crate) said: [u8; JOIN_PRELUDE_LENGTH],
}

/// The kind of a port, by the clients that may use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortOf {
    /// The port for known hosts.
    #[default]
    Clients,
    /// The port for all hosts, including strangers.
    Strangers,
}

/// The first bytes of a connection that a gateway has begun for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer(pub(crate) [u8; JOIN_OFFER_LENGTH]);

/// Datagrams that arrived at one local address of the UDP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagrams {
    pub(crate) local: Local,
    /// Each datagram, with its source address.
    pub(crate) datagrams: Vec<(SocketAddr, BytesMut)>,
}

/// The streams and connections that a predecessor still serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Open streams and connections.
    pub open: u64,
    /// Seconds after which the predecessor ends them.
    pub seconds: u64,
}

impl Message {
    /// Packs these datagrams into messages, in their order. Drops a datagram that fits no message.
    pub(super) fn carrying(local: Local, datagrams: Vec<(SocketAddr, BytesMut)>) -> Vec<Self> {
        let message = |datagrams| Self::Datagrams(Datagrams { local, datagrams });
        let mut messages = Vec::new();
        let (mut row, mut size) = (Vec::new(), 0);
        for (remote, datagram) in datagrams {
            let takes = DATAGRAM_HEADER + datagram.len();
            if PLACE + takes > MAX_SIZE {
                continue;
            }
            if PLACE + size + takes > MAX_SIZE {
                messages.push(message(std::mem::take(&mut row)));
                size = 0;
            }
            size += takes;
            row.push((remote, datagram));
        }
        if !row.is_empty() {
            messages.push(message(row));
        }
        messages
    }

    pub(super) fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        match self {
            Self::Listener => out.put_u8(LISTENER),
            Self::Lock => out.put_u8(LOCK),
            Self::Door(address) => {
                out.put_u8(DOOR);
                put_address(&mut out, *address);
            }
            Self::Begin(address) => {
                out.put_u8(BEGIN);
                address.iter().for_each(|it| put_address(&mut out, *it));
            }
            Self::Yield => out.put_u8(YIELD),
            Self::Yielded => out.put_u8(YIELDED),
            Self::Ready => out.put_u8(READY),
            Self::Join(Join { port, said }) => {
                out.put_u8(match port {
                    PortOf::Clients => JOIN,
                    PortOf::Strangers => JOIN_OF_STRANGER,
                });
                out.put_slice(said);
            }
            Self::Offer(Offer(offer)) => {
                out.put_u8(OFFER);
                out.put_slice(offer);
            }
            Self::Datagrams(Datagrams { local, datagrams }) => {
                out.put_u8(DATAGRAMS);
                out.put_u32(local.link.value());
                put_ip(&mut out, local.address);
                for (remote, datagram) in datagrams {
                    put_address(&mut out, *remote);
                    out.put_u16(datagram.len() as u16);
                    out.put_slice(datagram);
                }
            }
            Self::Left(left) => {
                out.put_u8(LEFT);
                out.put_u64(left.open);
                out.put_u64(left.seconds);
            }
        }
        out
    }

    /// Reads a message; returns `None` for invalid bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, mut rest) = bytes.split_first()?;
        let rest = &mut rest;
        let message = match *kind {
            LISTENER => Self::Listener,
            LOCK => Self::Lock,
            DOOR => Self::Door(take_address(rest)?),
            BEGIN if rest.is_empty() => Self::Begin(None),
            BEGIN => Self::Begin(Some(take_address(rest)?)),
            YIELD => Self::Yield,
            YIELDED => Self::Yielded,
            READY => Self::Ready,
            JOIN | JOIN_OF_STRANGER => {
                let said = *rest.first_chunk()?;
                rest.advance(JOIN_PRELUDE_LENGTH);
                let port = match *kind {
                    JOIN => PortOf::Clients,
                    _ => PortOf::Strangers,
                };
                Self::Join(Join { port, said })
            }
            OFFER => {
                let offer = *rest.first_chunk()?;
                rest.advance(JOIN_OFFER_LENGTH);
                Self::Offer(Offer(offer))
            }
            DATAGRAMS => {
                let link = LinkIndex::new(rest.try_get_u32().ok()?);
                let address = take_ip(rest)?;
                let mut datagrams = Vec::new();
                while !rest.is_empty() {
                    let remote = take_address(rest)?;
                    let length = usize::from(rest.try_get_u16().ok()?);
                    datagrams.push((remote, BytesMut::from(rest.get(..length)?)));
                    rest.advance(length);
                }
                let local = Local { link, address };
                Self::Datagrams(Datagrams { local, datagrams })
            }
            LEFT => Self::Left(Left {
                open: rest.try_get_u64().ok()?,
                seconds: rest.try_get_u64().ok()?,
            }),
            _ => return None,
        };
        rest.is_empty().then_some(message)
    }
}

/// Writes an IP address; an IPv4 address is written as IPv6 (RFC 4291 §2.5.5.2).
fn put_ip(out: &mut BytesMut, ip: IpAddr) {
    let ip = match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    out.put_slice(&ip.octets());
}

fn take_ip(from: &mut &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = *from.first_chunk()?;
    from.advance(octets.len());
    Some(IpAddr::V6(octets.into()).to_canonical())
}

/// Writes an address with its scope, which tells link-local addresses of several links apart.
fn put_address(out: &mut BytesMut, address: SocketAddr) {
    put_ip(out, address.ip());
    out.put_u16(address.port());
    out.put_u32(match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    });
}

fn take_address(from: &mut &[u8]) -> Option<SocketAddr> {
    let ip = take_ip(from)?;
    let port = from.try_get_u16().ok()?;
    let scope = from.try_get_u32().ok()?;
    Some(match ip {
        IpAddr::V4(ip) => SocketAddr::from((ip, port)),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, scope).into(),
    })
}

/// Most bytes of a message: the largest UDP datagram, and its source.
pub(super) const MAX_SIZE: usize = 65_507 + PLACE + DATAGRAM_HEADER;
/// The kind of the message, a link's number and an address.
const PLACE: usize = 1 + 4 + size_of::<Ipv6Addr>();
/// An address with port and scope, and a length.
const DATAGRAM_HEADER: usize = size_of::<Ipv6Addr>() + 2 + 4 + 2;

const LISTENER: u8 = 1;
const LOCK: u8 = 2;
const BEGIN: u8 = 3;
const YIELD: u8 = 4;
const YIELDED: u8 = 5;
const READY: u8 = 6;
const JOIN: u8 = 7;
const DATAGRAMS: u8 = 8;
const LEFT: u8 = 9;
const OFFER: u8 = 10;
const DOOR: u8 = 11;
const JOIN_OF_STRANGER: u8 = 12;
