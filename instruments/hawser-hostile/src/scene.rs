//! Destinations that a hostile client lets the gateway connect to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::{BufMut as _, BytesMut};
use hawser_wire::StreamKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::error::HostileError;
use crate::network;
use crate::place::Place;
use crate::priority;

/// The places of one trial, all at 127.0.0.1.
#[derive(Debug)]
pub struct Scene {
    sink: SocketAddr,
    silent: SocketAddr,
    source: SocketAddr,
    closed: ClosedPort,
    empty_datagrams: SocketAddr,
    datagrams: SocketAddr,
    /// Takes datagrams and answers none.
    quiet: UdpSocket,
    /// Where there is a network of the trial's own.
    local_route: Option<(std::net::TcpListener, SocketAddr)>,
}

impl Scene {
    /// Opens all places; they stay open as long as the runtime.
    pub(crate) async fn open() -> io::Result<Self> {
        Ok(Self {
            sink: listen(|stream| Box::pin(read_all(stream))).await?,
            silent: listen(|stream| Box::pin(hold(stream))).await?,
            source: listen(|stream| Box::pin(write_all(stream))).await?,
            closed: ClosedPort::hold()?,
            empty_datagrams: flooder(0)?,
            datagrams: flooder(1200)?,
            quiet: UdpSocket::bind(ANY_PORT)?,
            local_route: None,
        })
    }

    /// Opens a service at the address that only a route makes the gateway's own.
    pub(crate) fn open_local_route(&mut self) -> Result<(), HostileError> {
        self.local_route = Some(network::anycast_service()?);
        Ok(())
    }

    /// Its address.
    pub(crate) fn local_route(&self) -> SocketAddr {
        let found = self.local_route.as_ref().map(|(_, address)| *address);
        found.unwrap_or(self.closed.address)
    }

    /// The port where a fronted service would take the PROXY protocol.
    pub(crate) fn behind(&self) -> u16 {
        self.sink.port()
    }

    /// The metadata that open a stream to a place.
    pub(crate) fn metadata(&self, place: Place) -> BytesMut {
        let (kind, address) = match place {
            Place::Fronted => return fronted("localhost"),
            Place::AlmostFronted => return fronted("localhost.localdomain"),
            Place::MeasuredUp => return self.opening(StreamKind::Sink, 0),
            Place::MeasuredDown => return self.opening(StreamKind::Source, 0),
            Place::Sink => (StreamKind::ConnectV4, self.sink),
            Place::Silent => (StreamKind::ConnectV4, self.silent),
            Place::Source => (StreamKind::ConnectV4, self.source),
            Place::Closed => (StreamKind::ConnectV4, self.closed.address),
            Place::LocalRoute => (StreamKind::ConnectV4, self.local_route()),
            Place::EmptyDatagrams => (StreamKind::DatagramsV4, self.empty_datagrams),
            Place::Datagrams => (StreamKind::DatagramsV4, self.datagrams),
        };
        address_opening(kind, address)
    }

    /// The metadata that open a stream of this kind. What can differ from stream to stream does.
    pub(crate) fn opening(&self, kind: StreamKind, number: u64) -> BytesMut {
        let mut out = BytesMut::new();
        out.put_u8(kind.number());
        match kind {
            StreamKind::ConnectV4 | StreamKind::ConnectV6 => {
                return address_opening(kind, loopback(kind, self.closed.address.port()));
            }
            StreamKind::DatagramsV4
            | StreamKind::DatagramsV6
            | StreamKind::CallV4
            | StreamKind::CallV6 => {
                return address_opening(kind, loopback(kind, self.quiet_port()));
            }
            StreamKind::ConnectName | StreamKind::DatagramsName | StreamKind::CallName => {
                // A name of this machine's, which no name server is asked for.
                return name_opening(kind, self.quiet_port(), "localhost");
            }
            StreamKind::File | StreamKind::Sink | StreamKind::BeMet | StreamKind::Punch => {}
            StreamKind::Source => out.put_u64(MOST_WANTED),
            StreamKind::Reasons => out.put_u64(2 * number),
            StreamKind::Packets => {
                out.put_u8((number % 4) as u8);
                out.put_bytes(0, 20);
            }
            StreamKind::Meet => {
                out.put_u64(number);
                out.put_bytes(7, 24);
            }
            StreamKind::Observe => {
                out.put_u64(number);
                out.put_bytes(7, 8);
            }
        }
        out
    }

    fn quiet_port(&self) -> u16 {
        self.quiet.local_addr().map_or(9, |address| address.port())
    }
}

/// A stream of this kind to an address.
fn address_opening(kind: StreamKind, to: SocketAddr) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(kind.number());
    out.put_u16(to.port());
    match to.ip() {
        IpAddr::V4(ip) => out.put_slice(&ip.octets()),
        IpAddr::V6(ip) => out.put_slice(&ip.octets()),
    }
    out
}

/// A port of this machine's, by its loopback address of the family that streams of a kind name.
fn loopback(kind: StreamKind, port: u16) -> SocketAddr {
    match kind {
        StreamKind::ConnectV6 | StreamKind::DatagramsV6 | StreamKind::CallV6 => {
            (Ipv6Addr::LOCALHOST, port).into()
        }
        _ => (Ipv4Addr::LOCALHOST, port).into(),
    }
}

fn name_opening(kind: StreamKind, port: u16, host: &str) -> BytesMut {
    let mut out = BytesMut::new();
    out.put_u8(kind.number());
    out.put_u16(port);
    out.put_u8(host.len() as u8);
    out.put_slice(host.as_bytes());
    out
}

/// A stream to the fronted port of a host of this name.
fn fronted(host: &str) -> BytesMut {
    name_opening(StreamKind::ConnectName, FRONTED, host)
}

/// A port at which every connection is refused: it is bound, but not listening. An unbound port
/// could be taken by a listener of another trial at any moment.
#[derive(Debug)]
struct ClosedPort {
    address: SocketAddr,
    _owner: TcpSocket,
}

impl ClosedPort {
    fn hold() -> io::Result<Self> {
        let owner = TcpSocket::new_v4()?;
        owner.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self {
            address: owner.local_addr()?,
            _owner: owner,
        })
    }
}

type Serving = std::pin::Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

async fn listen(serve: fn(TcpStream) -> Serving) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(ANY_PORT).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => drop(tokio::spawn(serve(stream))),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    Ok(address)
}

async fn read_all(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Reads nothing until the other end has gone.
async fn hold(stream: TcpStream) -> io::Result<()> {
    loop {
        tokio::time::sleep(PAUSE).await;
        if stream.ready(tokio::io::Interest::ERROR).await?.is_error() {
            return Ok(());
        }
    }
}

async fn write_all(mut stream: TcpStream) -> io::Result<()> {
    let buffer = vec![0x55; 64 * 1024];
    loop {
        stream.write_all(&buffer).await?;
    }
}

/// A socket that answers the first datagram of each sender with as many as fit a few seconds.
fn flooder(size: usize) -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind(ANY_PORT)?;
    let address = socket.local_addr()?;
    socket.set_read_timeout(Some(GIVE_UP))?;
    std::thread::spawn(move || {
        priority::yield_to_all();
        let mut buffer = [0; 2048];
        while let Ok((_, from)) = socket.recv_from(&mut buffer) {
            let until = Instant::now() + FLOOD;
            let payload = vec![0xdd; size];
            for number in 0..MOST_DATAGRAMS {
                if number % 256 == 0 && Instant::now() >= until {
                    break;
                }
                // A full queue, or a port that is gone: the next one may fare better.
                let _ = socket.send_to(&payload, from);
            }
        }
    });
    Ok(address)
}

/// The port that strangers may name.
pub(crate) const FRONTED: u16 = 443;
const ANY_PORT: &str = "127.0.0.1:0";
const PAUSE: Duration = Duration::from_millis(100);
/// As much as a gateway sends for one measurement.
const MOST_WANTED: u64 = 1 << 36;
/// The thread ends when no request arrives for this long.
const GIVE_UP: Duration = Duration::from_secs(60);
const FLOOD: Duration = Duration::from_secs(3);
const MOST_DATAGRAMS: u32 = 200_000;
