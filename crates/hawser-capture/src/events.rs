use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aya::maps::{HashMap, MapData};
use hawser_sched::connection::{Class, Reason};
use hawser_types::{ByteCount, LinkIndex};

use crate::Bytes;
use crate::ring::Rows;
use crate::sys::Ring;
use crate::tables::{self, EventRow, FlowRow, OriginKey, OriginRow};

/// Stream of events of the kernel's program, in order.
#[derive(Debug)]
pub struct Events {
    rows: Rows,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection was assigned to a link or redirected, and is about to connect.
    Connected(Connection),
    /// The connection has ended or failed.
    Ended(Connection, End),
    /// The rules allowed the connection no link.
    Refused(Connection),
}

/// A captured connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Cookie of its socket, which is never reused.
    pub cookie: u64,
    /// Name of the process, at most 15 bytes.
    pub program: String,
    /// Process number in the initial PID namespace.
    pub process: u32,
    /// User id of the process.
    pub user: u32,
    /// The kernel's number of the process's control group: the inode of its folder.
    pub cgroup: u64,
    /// Destination that the application asked for.
    pub remote: SocketAddr,
    /// Whether this is a UDP connection.
    pub udp: bool,
    /// Class by the rules.
    pub class: Class,
    /// The link that the socket was bound to; `None` if it was redirected or refused.
    pub link: Option<LinkIndex>,
    /// Reason for that link.
    pub reason: Option<Reason>,
    /// Whether the connection was redirected.
    pub redirected: bool,
    /// DSCP of its packets (RFC 2474), 0 to 63.
    pub dscp: u8,
    /// Slots of the links that rules allow, where they name links.
    pub(crate) places: Option<u16>,
    /// Expected demand.
    pub demand: Bytes,
}

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// Payload that the connection moved.
    pub moved: Bytes,
    /// Smoothed round-trip time; `None` if there was never an answer.
    pub latency: Option<Duration>,
    /// Duration of the handshake; `None` if it failed, and for datagrams.
    pub connect_time: Option<Duration>,
    /// Duration of the connection.
    pub lasted: Duration,
}

impl Events {
    pub(crate) fn new(ring: Ring) -> io::Result<Self> {
        Rows::watch(ring).map(|rows| Self { rows })
    }

    /// Waits for the next event. It is cancel-safe.
    pub async fn next(&mut self) -> io::Result<Event> {
        self.rows.next(Event::read).await
    }

    /// Returns the next event that has happened already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.rows.try_next(Event::read)
    }
}

impl Event {
    fn read(bytes: &[u8]) -> Option<Self> {
        let row: EventRow = tables::read(bytes)?;
        let connection = Connection::new(row.cookie, &row.flow);
        match row.kind {
            tables::EVENT_CONNECTED => Some(Self::Connected(connection)),
            tables::EVENT_ENDED => Some(Self::Ended(connection, End::new(&row))),
            tables::EVENT_REFUSED => Some(Self::Refused(connection)),
            _ => None,
        }
    }
}

impl Connection {
    /// Tells whether rules name the links that the connection may take.
    pub fn has_named_links(&self) -> bool {
        self.places.is_some()
    }

    pub(crate) fn new(cookie: u64, flow: &FlowRow) -> Self {
        Self {
            cookie,
            program: tables::text(&flow.program),
            process: flow.process,
            user: flow.user,
            cgroup: flow.cgroup,
            remote: SocketAddr::new(tables::unmapped(flow.remote), flow.port),
            udp: i32::from(flow.protocol) == libc::IPPROTO_UDP,
            class: class(flow.class),
            link: (flow.link != 0).then(|| LinkIndex::new(flow.link)),
            reason: (flow.link != 0).then(|| reason(flow.reason)),
            redirected: flow.redirected != 0,
            dscp: flow.dscp,
            places: (flow.any_link == 0).then_some(flow.links),
            demand: Bytes {
                up: ByteCount::new(flow.demand.up),
                down: ByteCount::new(flow.demand.down),
            },
        }
    }
}

impl End {
    fn new(row: &EventRow) -> Self {
        let flow = &row.flow;
        let since = |then: u64, now: u64| Duration::from_nanos(now.saturating_sub(then));
        let bytes = Bytes {
            up: ByteCount::new(row.up),
            down: ByteCount::new(row.down),
        };
        Self {
            moved: bytes,
            latency: (row.latency != 0).then(|| Duration::from_micros(row.latency.into())),
            connect_time: (flow.established != 0).then(|| since(flow.began, flow.established)),
            lasted: since(flow.began, row.at),
        }
    }
}

const fn class(number: u8) -> Class {
    match number {
        0 => Class::RealTime,
        1 => Class::Interactive,
        2 => Class::Bulk,
        _ => Class::Unknown,
    }
}

const fn reason(number: u8) -> Reason {
    match number {
        0 => Reason::Fastest,
        1 => Reason::Turn,
        2 => Reason::FinishesFirst,
        _ => Reason::AnswersFirst,
    }
}

/// Original destinations of redirected connections; usable from any thread.
pub type Origins = Arc<OriginTable>;

/// The table behind [`Origins`].
#[derive(Debug)]
pub struct OriginTable(HashMap<MapData, OriginKey, OriginRow>);

/// Origin of a redirected connection: its process and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Destination that the application asked for.
    pub remote: SocketAddr,
    /// Name of the process, at most 15 bytes.
    pub program: String,
    /// Process number in the initial PID namespace.
    pub process: u32,
    /// User id of the process.
    pub user: u32,
    /// DSCP of its packets (RFC 2474), 0 to 63.
    pub dscp: u8,
}

impl OriginTable {
    pub(crate) const fn new(table: HashMap<MapData, OriginKey, OriginRow>) -> Self {
        Self(table)
    }

    /// Returns the origin of the connection that arrived at the redirect address from `peer`;
    /// `None` if it was not redirected.
    pub fn find(&self, peer: SocketAddr) -> Option<Origin> {
        let peer_ip = peer.ip().to_canonical();
        let key = OriginKey {
            port: peer.port(),
            ipv6: u16::from(peer_ip.is_ipv6()),
        };
        let row = self.0.get(&key, 0).ok().filter(|_| peer_ip.is_loopback())?;
        Some(Origin {
            remote: SocketAddr::new(tables::unmapped(row.remote), row.port),
            program: tables::text(&row.program),
            process: row.process,
            user: row.user,
            dscp: row.dscp,
        })
    }

    /// Returns only the destination of [`Self::find`].
    pub fn original_destination(&self, peer: SocketAddr) -> Option<SocketAddr> {
        self.find(peer).map(|origin| origin.remote)
    }
}
