//! Destinations that a hostile client lets the gateway connect to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

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
        })
    }

    /// The port where a fronted service would take the PROXY protocol.
    pub(crate) fn behind(&self) -> u16 {
        self.sink.port()
    }

    /// The metadata that open a stream to a place.
    pub(crate) fn metadata(&self, place: Place) -> BytesMut {
        const CONNECT_V4: u8 = 1;
        const DATAGRAMS_V4: u8 = 4;
        let (kind, address) = match place {
            Place::Fronted => return named("localhost"),
            Place::AlmostFronted => return named("localhost.localdomain"),
            Place::Sink => (CONNECT_V4, self.sink),
            Place::Silent => (CONNECT_V4, self.silent),
            Place::Source => (CONNECT_V4, self.source),
            Place::Closed => (CONNECT_V4, self.closed.address),
            Place::EmptyDatagrams => (DATAGRAMS_V4, self.empty_datagrams),
            Place::Datagrams => (DATAGRAMS_V4, self.datagrams),
        };
        let mut out = BytesMut::new();
        out.extend_from_slice(&[kind]);
        out.extend_from_slice(&address.port().to_be_bytes());
        out.extend_from_slice(&[127, 0, 0, 1]);
        out
    }
}

/// A stream to the fronted port of a host of this name.
fn named(host: &str) -> BytesMut {
    const CONNECT_NAME: u8 = 3;
    let mut out = BytesMut::new();
    out.extend_from_slice(&[CONNECT_NAME]);
    out.extend_from_slice(&FRONTED.to_be_bytes());
    out.extend_from_slice(&[host.len() as u8]);
    out.extend_from_slice(host.as_bytes());
    out
}

/// A port where every connection is refused: it has an owner, who does not listen. A port that
/// nobody holds could go to a listener of another trial at any moment.
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
/// The thread ends when nobody has asked for so long.
const GIVE_UP: Duration = Duration::from_secs(60);
const FLOOD: Duration = Duration::from_secs(3);
const MOST_DATAGRAMS: u32 = 200_000;
