//! Sockets bound to one link, and the few socket options that matter here.
//!
//! A connection is bound to its link twice: to the interface, so that it can leave by no other, and
//! to one of the interface's addresses, so that rules that choose a routing table by source address
//! apply too. An unprivileged process may bind to an interface from Linux 5.7 on.

mod before_connect;
mod datagram;
mod error;
mod mark;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::inherited;
use crate::links::{self, Link};
use crate::sys;

pub use before_connect::{Carries, LookingAtSockets, look_at_sockets};
pub use datagram::DatagramSocket;
pub use error::ConnectError;
pub use mark::{OWN_MARK, mark, mark_sockets, own_mark};

/// Options of a TCP socket, set before it carries anything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SocketOptions {
    /// Name of the congestion control; `None` leaves the system's default.
    pub congestion: Option<String>,
    /// Bytes that may wait in the kernel unsent before the socket stops being writable; `None` sets
    /// no limit.
    pub not_sent_low_water: Option<ByteCount>,
    /// Whether small writes are sent at once instead of waiting for more.
    pub no_delay: bool,
    /// Whether to offer the far end Multipath TCP, where this system has it; if the far end does
    /// not support it, the connection is plain TCP (RFC 8684 §3.7).
    pub mptcp: bool,
    /// Maximum segment size to announce and to send (`TCP_MAXSEG`); `None` for what the interface
    /// allows. Takes effect only before the connection.
    pub max_segment: Option<u16>,
    /// Time that a connection attempt may take.
    pub connect_timeout: Duration,
    /// Owner of the data that the connection carries.
    pub carries: Carries,
}

impl SocketOptions {
    /// Sets the options on a connected socket, such as one that was accepted.
    pub fn apply(&self, socket: &impl AsFd) -> Result<(), ConnectError> {
        let socket = SockRef::from(socket);
        if let Some(name) = &self.congestion {
            socket
                .set_tcp_congestion(name.as_bytes())
                .map_err(|e| congestion_error(name, e))?;
        }
        if let Some(bytes) = self.not_sent_low_water {
            set_low_water(&socket, bytes)
                .map_err(|e| ConnectError::system("limit the unsent data", e))?;
        }
        if let Some(bytes) = self.max_segment {
            socket
                .set_tcp_mss(bytes.into())
                .map_err(|e| ConnectError::system("limit the segment size", e))?;
        }
        // Detects within a minute that the peer of an idle connection has vanished.
        let alive = TcpKeepalive::new()
            .with_time(KEEPALIVE_AFTER)
            .with_interval(KEEPALIVE_EVERY)
            .with_retries(KEEPALIVE_RETRIES);
        socket
            .set_tcp_keepalive(&alive)
            .map_err(|e| ConnectError::system("enable TCP keepalive", e))?;
        socket
            .set_tcp_nodelay(self.no_delay)
            .map_err(|e| ConnectError::system("switch off the delay of small writes", e))
    }
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            congestion: None,
            not_sent_low_water: None,
            no_delay: true,
            mptcp: false,
            max_segment: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            carries: Carries::default(),
        }
    }
}

/// Opens a TCP connection to `remote` by `link`, or by the system's routes.
///
/// Dropping the future cancels the attempt.
pub async fn connect_on_link(
    link: Option<&Link>,
    remote: SocketAddr,
    options: &SocketOptions,
) -> Result<TcpStream, ConnectError> {
    let remote = canonical(remote);
    let multipath = options.mptcp.then(|| open_mptcp_socket(remote).ok());
    let socket = match multipath.flatten() {
        Some(socket) => Ok(socket),
        None => open_socket(remote),
    };
    let socket = socket.map_err(|e| ConnectError::system("open a socket", e))?;
    if let Some(link) = link {
        bind_to_link(&socket, link, remote)?;
    }
    options.apply(&socket)?;
    before_connect::look_at(&socket, options.carries);
    let connecting = TcpSocket::from_std_stream(socket.into()).connect(remote);
    match timeout(options.connect_timeout, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) => Err(ConnectError::from_connect(link, remote, e)),
        Err(_) => Err(silence(link, remote, options.connect_timeout).await),
    }
}

/// Returns the original destination of an accepted connection that address translation led here.
pub fn original_destination(stream: &TcpStream) -> Option<SocketAddr> {
    let socket = SockRef::from(stream);
    // A listener for both families also accepts IPv4 connections.
    let is_v4 = stream.local_addr().ok()?.ip().to_canonical().is_ipv4();
    let meant = if is_v4 {
        socket.original_dst_v4()
    } else {
        socket.original_dst_v6()
    };
    let meant = canonical(meant.ok()?.as_socket()?);
    (meant != canonical(stream.local_addr().ok()?)).then_some(meant)
}

/// Finds out why there was no answer.
async fn silence(link: Option<&Link>, remote: SocketAddr, after: Duration) -> ConnectError {
    if let Some(link) = link
        && let Some(source) = link.source_address(remote.ip())
        && !links::has_route(link.index, source, remote.ip()).await
    {
        return ConnectError::no_route(Some(link), remote);
    }
    ConnectError::TimedOut {
        remote,
        link: link.map(|link| link.name.clone()),
        after: Some(after),
    }
}

/// Listens on `address`; `[::]` takes IPv4 connections too. Port 0 lets the system choose a port
/// that is free for UDP, too, since associations use the UDP port of the same number.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if let Some(inherited) = inherited::take_tcp(address) {
        return Ok(inherited);
    }
    // The rejected listeners stay open, so that the system gives another port each time.
    let mut taken = Vec::new();
    loop {
        let listener = open_listener(address, |_| Ok(()))?;
        let is_enough = address.port() != 0 || taken.len() >= MOST_PORTS;
        if is_enough || std::net::UdpSocket::bind(listener.local_addr()?).is_ok() {
            return Ok(listener);
        }
        taken.push(listener);
    }
}

/// Lets [`listen_on_link`] listen on the port of `listener` too.
///
/// Call it only after listening: a program that shares the port before listening would not notice
/// that another process of the same user has the port.
pub fn share_port(listener: &TcpListener) -> io::Result<()> {
    SockRef::from(listener).set_reuse_port(true)
}

/// Listens on `address` for connections that arrive by one link, and answers them by that link. The
/// socket takes precedence over a socket that listens on the same port for all links.
pub fn listen_on_link(address: SocketAddr, link: LinkIndex) -> io::Result<TcpListener> {
    if let Some(inherited) = inherited::take_on_link(address, link) {
        return Ok(inherited);
    }
    open_listener(address, |socket| {
        bind_to_interface(socket, link)?;
        socket.set_reuse_port(true)
    })
}

/// Keeps silent connections in the kernel for about `wait` (`TCP_DEFER_ACCEPT`), for a port where
/// the client speaks first. After that time they are accepted all the same.
pub fn defer_accept(listener: &TcpListener, wait: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(wait.as_secs()).unwrap_or(libc::c_int::MAX);
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    sys::set_int_option(listener.as_fd(), level, name, seconds)
}

fn open_listener(
    address: SocketAddr,
    prepare: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<TcpListener> {
    let socket = open_socket(address)?;
    if let SocketAddr::V6(address) = address
        && address.ip().is_unspecified()
    {
        socket.set_only_v6(false)?;
    }
    // Otherwise a restart would have to wait for the connections of the previous run.
    socket.set_reuse_address(true)?;
    prepare(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Fails unless a socket is a TCP connection.
pub fn check_tcp(socket: BorrowedFd<'_>) -> io::Result<()> {
    match SockRef::from(&socket).protocol()? {
        Some(Protocol::TCP) => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Changes the congestion control of a connection, at any time.
pub fn set_congestion(socket: &impl AsFd, name: &str) -> Result<(), ConnectError> {
    SockRef::from(socket)
        .set_tcp_congestion(name.as_bytes())
        .map_err(|e| congestion_error(name, e))
}

/// Bounds the bytes that may wait in the kernel unsent before the socket stops being writable
/// (`TCP_NOTSENT_LOWAT`). More than 4 GiB counts as no limit.
pub fn set_not_sent_low_water(socket: &impl AsFd, bytes: ByteCount) -> io::Result<()> {
    set_low_water(&SockRef::from(socket), bytes)
}

/// Returns the congestion controls that the kernel has loaded.
pub fn available_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_available_congestion_control")
}

/// Returns the congestion controls that a process without privilege may choose.
pub fn allowed_congestion() -> io::Result<Vec<String>> {
    words("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
}

fn congestion_error(name: &str, error: io::Error) -> ConnectError {
    let allowed = allowed_congestion().unwrap_or_default();
    ConnectError::congestion(name, &allowed, error)
}

/// Returns the congestion control that suits striping best among those this process may use: bbr,
/// since a loss on a radio link is not congestion; `None` for the system's default.
pub fn best_congestion() -> Option<String> {
    is_permitted(BBR).then(|| BBR.to_owned())
}

/// Returns whether this process may use a congestion control.
pub fn is_permitted(name: &str) -> bool {
    let socket = open_socket(SocketAddr::from(([127, 0, 0, 1], 0)));
    socket.is_ok_and(|socket| {
        SockRef::from(&socket)
            .set_tcp_congestion(name.as_bytes())
            .is_ok()
    })
}

/// A congestion control that does not treat loss as congestion.
pub const BBR: &str = "bbr";

fn bind_to_link(socket: &Socket, link: &Link, remote: SocketAddr) -> Result<(), ConnectError> {
    bind_to_interface(socket, link.index)
        .map_err(|e| ConnectError::from_bind_to_interface(link, e))?;
    let Some(source) = source_for(link, remote.ip())? else {
        return Ok(());
    };
    // Delays the choice of the port until the remote address is known, so that connections to
    // different destinations can share a port. If refused, every connection has its own port.
    let no_port = sys::set_int_option(
        socket.as_fd(),
        libc::IPPROTO_IP,
        libc::IP_BIND_ADDRESS_NO_PORT,
        1,
    );
    if let Err(error) = no_port {
        tracing::debug!(%error,
            "cannot delay the choice of the local port until the destination is known");
    }
    socket
        .bind(&SocketAddr::new(source, 0).into())
        .map_err(|e| ConnectError::from_bind_to_address(link, source, e))
}

/// Binds by index, not by name: a link may be renamed, and another one may get its name.
pub fn bind_to_interface(socket: &Socket, link: LinkIndex) -> io::Result<()> {
    let index = libc::c_int::try_from(link.value())
        .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    sys::set_int_option(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_BINDTOIFINDEX,
        index,
    )
}

/// Returns the link's address to connect to `remote` from; `None` where the kernel chooses better.
fn source_for(link: &Link, remote: IpAddr) -> Result<Option<IpAddr>, ConnectError> {
    if let IpAddr::V6(remote) = remote
        && remote.is_unicast_link_local()
    {
        // The source must be link-local as well, and `Link` does not list link-local addresses.
        return Ok(None);
    }
    link.source_address(remote)
        .map(Some)
        .ok_or_else(|| ConnectError::NoAddress {
            link: link.name.clone(),
            family: remote.into(),
        })
}

fn open_socket(address: SocketAddr) -> io::Result<Socket> {
    open_stream_socket(address, Protocol::TCP)
}

/// Fails where the system has no Multipath TCP or it is switched off.
fn open_mptcp_socket(address: SocketAddr) -> io::Result<Socket> {
    open_stream_socket(address, Protocol::MPTCP)
}

fn open_stream_socket(address: SocketAddr, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(protocol))?;
    mark(&socket)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
        // Unchanged, as the address may name a scope.
        IpAddr::V6(_) => address,
    }
}

fn set_low_water(socket: &SockRef<'_>, bytes: ByteCount) -> io::Result<()> {
    socket.set_tcp_notsent_lowat(u32::try_from(bytes.as_u64()).unwrap_or(u32::MAX))
}

fn words(path: &str) -> io::Result<Vec<String>> {
    Ok(fs::read_to_string(path)?
        .split_whitespace()
        .map(str::to_owned)
        .collect())
}

/// Long enough for four SYNs (1, 3 and 7 s after the first), short enough to try another link.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

const BACKLOG: i32 = 1024;
/// Ports to try before accepting one whose UDP port another program has.
const MOST_PORTS: usize = 16;
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
