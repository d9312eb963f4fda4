//! Connections to services of this machine that have another host's address as their source.
//!
//! A service sees, counts, logs and refuses such a connection as one of that host: in `accept`,
//! `getpeername`, the kernel's tables, and firewall rules that match addresses. The socket is
//! transparent (`IP_TRANSPARENT`) and connects to the loopback address of its family. Answers of
//! the service have that loopback address as their source: one routing rule for each port matches
//! it and delivers these packets to this machine. Without the rule the kernel would drop them,
//! since it lets no packet with a loopback source leave. So the rules that a killed daemon leaves
//! behind affect no other traffic.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use parking_lot::Mutex;
use rtnetlink::Handle;
use rtnetlink::packet_route::IpProtocol;
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage, RulePortRange};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::routing_rules::{self, is_there, preference, version_of, way_in};
use crate::tun::local_route;
use hawser_link::bind::mark;
use hawser_link::links::ask_kernel;
use hawser_link::sys;

/// Ports of this machine's services that accept connections from other hosts' addresses, until
/// [`Self::end`] or the end of this value.
#[derive(Debug)]
pub struct ForeignSource {
    ports: Mutex<BTreeSet<u16>>,
    /// Held while a port is added.
    adding: tokio::sync::Mutex<()>,
    /// Loopback addresses of the families in which the connections work.
    works: Vec<IpAddr>,
}

/// Why connections to services can't come from another host's address.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignSourceError {
    /// A socket may not have an address of another host.
    #[error("cannot connect from another host's address: {0}; this needs root, or CAP_NET_ADMIN")]
    Socket(io::Error),
    /// The kernel refuses the rule or the route.
    #[error("cannot route services' answers back here: {0}; this needs root, or CAP_NET_ADMIN")]
    Routes(String),
    /// The setup does not work, for example because a firewall drops the packets.
    #[error("a trial connection on this machine failed: {0}")]
    Trial(String),
}

impl ForeignSource {
    /// Sets up the return route for answers of services at `ports`, and tests it with a connection
    /// of its own. A machine that lacks one of the families uses the other.
    ///
    /// # Errors
    /// Why connections work in neither family; then no rule is left behind.
    pub async fn begin(ports: BTreeSet<u16>) -> Result<Self, ForeignSourceError> {
        Self::begin_in_place(ports, false).await
    }

    /// As [`Self::begin`], while this process takes over from one that may have set up the same
    /// rules and needs them as long as it runs. The old process must not call [`Self::end`].
    ///
    /// # Errors
    /// Why connections work in neither family; then the rules of the old process stay.
    pub async fn succeed(ports: BTreeSet<u16>) -> Result<Self, ForeignSourceError> {
        Self::begin_in_place(ports, true).await
    }

    async fn begin_in_place(
        ports: BTreeSet<u16>,
        is_succeeding: bool,
    ) -> Result<Self, ForeignSourceError> {
        let mut begun = Self {
            ports: Mutex::new(ports),
            adding: tokio::sync::Mutex::default(),
            works: Vec::new(),
        };
        let mut failed = Vec::new();
        let [v4, v6] = LOOPBACK;
        // Where a firewall drops the trial, each family takes until its timeout.
        let (with_v4, with_v6) = tokio::join!(begun.begin_family(v4), begun.begin_family(v6));
        for (loopback, tried) in [(v4, with_v4), (v6, with_v6)] {
            match tried {
                Ok(()) => begun.works.push(loopback),
                Err(error) => {
                    if !is_succeeding {
                        begun.remove_own(loopback).await;
                    }
                    failed.push((loopback, error));
                }
            }
        }
        if begun.works.is_empty() {
            let (_, error) = failed.swap_remove(0);
            return Err(error);
        }
        for (loopback, error) in failed {
            let family = if loopback.is_ipv4() { "IPv4" } else { "IPv6" };
            tracing::warn!(
                %error,
                "cannot connect to services from {family} addresses of other hosts: hosts with \
                 {family} addresses cannot reach services over a session"
            );
        }
        Ok(begun)
    }

    async fn begin_family(&self, loopback: IpAddr) -> Result<(), ForeignSourceError> {
        let trial = TcpListener::bind((loopback, 0)).await;
        let trial = trial.map_err(|error| ForeignSourceError::Trial(error.to_string()))?;
        let at = trial.local_addr();
        let at = at.map_err(|error| ForeignSourceError::Trial(error.to_string()))?;
        let ports: Vec<u16> = self
            .ports
            .lock()
            .iter()
            .copied()
            .chain([at.port()])
            .collect();
        let tried = match add(loopback, &ports).await {
            Ok(_) => try_out(&trial, at).await,
            Err(error) => Err(error),
        };
        if !self.has(at.port()) {
            remove(loopback, |port| port == at.port()).await;
        }
        tried
    }

    /// Sets up the return route for answers of the service at one more port.
    ///
    /// # Errors
    /// The kernel's error, or that there are too many ports.
    pub async fn add(&self, port: u16) -> Result<(), ForeignSourceError> {
        let _alone = self.adding.lock().await;
        if self.has(port) {
            return Ok(());
        }
        if self.ports.lock().len() >= MAX_PORTS {
            let problem = format!("there are rules for {MAX_PORTS} ports");
            return Err(ForeignSourceError::Routes(problem));
        }
        let mut added = Vec::new();
        for loopback in &self.works {
            match add(*loopback, &[port]).await {
                Ok(of_these) => added.extend(of_these.first().map(|_| *loopback)),
                Err(error) => {
                    // A rule that was there before may belong to another process.
                    for loopback in added {
                        remove(loopback, |it| it == port).await;
                    }
                    return Err(error);
                }
            }
        }
        self.ports.lock().insert(port);
        Ok(())
    }

    fn has(&self, port: u16) -> bool {
        self.ports.lock().contains(&port)
    }

    /// Returns whether connections to services can come from addresses of the family of `client`.
    pub fn works_for(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.works.iter().any(|it| it.is_ipv4() == client.is_ipv4())
    }

    /// Connects to the service at `port`, from `client` and a port that the kernel chooses.
    ///
    /// # Errors
    /// The kernel's error, or that the port is not set up or the family does not work.
    pub async fn connect(&self, client: IpAddr, port: u16) -> io::Result<TcpStream> {
        if !self.has(port) || !self.works_for(client) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let client = client.to_canonical();
        let loopback = match client {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        connect_from(client, SocketAddr::new(loopback, port)).await
    }

    /// Removes the return route: connections to services fail from now on.
    pub async fn end(&self) {
        for loopback in &self.works {
            self.remove_own(*loopback).await;
        }
    }

    async fn remove_own(&self, loopback: IpAddr) {
        remove(loopback, |port| self.has(port)).await;
    }
}

async fn connect_from(client: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = open(client)?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(to);
    let stream = stream.await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn open(client: IpAddr) -> io::Result<Socket> {
    let from = SocketAddr::new(client, 0);
    let socket = Socket::new(Domain::for_address(from), Type::STREAM, Some(Protocol::TCP))?;
    mark(&socket)?;
    socket.set_nonblocking(true)?;
    match client {
        IpAddr::V4(_) => socket.set_ip_transparent_v4(true)?,
        IpAddr::V6(_) => socket.set_ip_transparent_v6(true)?,
    }
    // The kernel chooses the port at connect, so that one client may use all ports.
    let (level, name) = (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
    sys::set_int_option(socket.as_fd(), level, name, 1)?;
    socket.bind(&from.into())?;
    Ok(socket)
}

/// Tests whether a listener sees a connection from an address that belongs to no host.
async fn try_out(listener: &TcpListener, at: SocketAddr) -> Result<(), ForeignSourceError> {
    let client = match at {
        SocketAddr::V4(_) => IpAddr::V4(DOCUMENTATION_V4),
        SocketAddr::V6(_) => IpAddr::V6(DOCUMENTATION_V6),
    };
    drop(open(client).map_err(ForeignSourceError::Socket)?);
    let trial = async { tokio::try_join!(connect_from(client, at), listener.accept()) };
    let seen = match timeout(TRIAL, trial).await {
        Ok(Ok((_connected, (_accepted, seen)))) => seen.ip(),
        Ok(Err(error)) => return Err(ForeignSourceError::Trial(error.to_string())),
        Err(_) => return Err(ForeignSourceError::Trial("no answer came back".to_owned())),
    };
    if seen == client {
        Ok(())
    } else {
        Err(ForeignSourceError::Trial(format!(
            "the listener saw {seen}, not {client}"
        )))
    }
}

/// Adds the missing rules for these ports. Returns the ports of the added rules.
async fn add(loopback: IpAddr, ports: &[u16]) -> Result<Vec<u16>, ForeignSourceError> {
    let added = ask_kernel(|handle| async move {
        let added = add_all(&handle, loopback, ports).await;
        Ok(added.map_err(|error| error.to_string()))
    });
    let added = added.await.map_err(|error| error.to_string());
    added.and_then(|it| it).map_err(ForeignSourceError::Routes)
}

async fn add_all(
    handle: &Handle,
    loopback: IpAddr,
    ports: &[u16],
) -> Result<Vec<u16>, rtnetlink::Error> {
    let mut newly = Vec::new();
    let mut found = handle.link().get().match_name(DEVICE.to_owned()).execute();
    let index = found.try_next().await?.map_or(0, |link| link.header.index);
    let route = local_route(index, loopback, TABLE);
    match handle.route().add(route).execute().await {
        Err(error) if !is_there(&error) => return Err(error),
        _ => {}
    }
    for port in ports {
        let mut rule =
            routing_rules::new(handle, PREFERENCE, TABLE).input_interface(DEVICE.to_owned());
        let range = RulePortRange {
            start: *port,
            end: *port,
        };
        rule.message_mut().attributes.extend([
            RuleAttribute::IpProtocol(IpProtocol::Tcp),
            RuleAttribute::SourcePortRange(range),
        ]);
        let added = match loopback {
            IpAddr::V4(from) => rule.v4().source_prefix(from, 32).execute().await,
            IpAddr::V6(from) => rule.v6().source_prefix(from, 128).execute().await,
        };
        match added {
            // A killed daemon has left the rule, or it belongs to the predecessor.
            Err(error) if is_there(&error) => {}
            Err(error) => return Err(error),
            Ok(()) => newly.push(*port),
        }
    }
    Ok(newly)
}

/// Removes the rules of the family of `loopback` for ports that satisfy `meant`. The route stays:
/// no other rule uses it.
async fn remove(loopback: IpAddr, meant: impl Fn(u16) -> bool) {
    let removed = ask_kernel(|handle| async move {
        let is_meant = |rule: &RuleMessage| port_of(rule).is_some_and(&meant);
        routing_rules::remove(&handle, version_of(loopback), is_meant).await;
        Ok(())
    });
    if let Err(error) = removed.await {
        tracing::debug!(%error, "cannot remove routing rules for services' answers");
    }
}

/// Returns the port of a rule, if the rule is Hawser's.
fn port_of(rule: &RuleMessage) -> Option<u16> {
    let is_ours = preference(rule) == Some(PREFERENCE) && way_in(rule) == Some(DEVICE);
    let mut ports = rule.attributes.iter().filter_map(|it| match it {
        RuleAttribute::SourcePortRange(range) => Some(range.start),
        _ => None,
    });
    ports.next().filter(|_| is_ours)
}

const LOOPBACK: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// Input interface that rules match for packets that this machine sends.
const DEVICE: &str = "lo";
const TABLE: u32 = 5213;
/// Precedes rules that route this machine's packets into a tunnel.
const PREFERENCE: u32 = 5203;
/// Documentation addresses (RFC 5737, RFC 3849): no client has them.
const DOCUMENTATION_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DOCUMENTATION_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// More ports than a machine fronts, and than the rules that redirect its ports name.
const MAX_PORTS: usize = 1024;
const TRIAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
