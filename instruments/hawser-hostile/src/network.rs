//! A network for one trial: a namespace for the gateway and all honest parties, an outside host
//! that answers datagrams, and a gateway address that exists only because of a local route.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, no_ip, within};

use crate::error::HostileError;

/// Two namespaces and a cable between them.
pub(crate) struct Network {
    inside: Neighbour,
    _outside: Neighbour,
    echo: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Network {
    /// Makes it.
    ///
    /// # Errors
    /// When this machine or its user may not.
    pub(crate) fn make() -> Result<Self, HostileError> {
        if let Some(problem) = missing() {
            return Err(HostileError::NoNetwork(problem));
        }
        let (inside, outside) = (Neighbour::start(), Neighbour::start());
        for host in [&inside, &outside] {
            host.ip("link set lo up");
        }
        inside.ip("link add wan type veth peer name far");
        inside.ip(&format!("link set far netns {}", outside.process()));
        for (host, link, address) in [(&inside, "wan", GATEWAY), (&outside, "far", OUTSIDE)] {
            host.ip(&format!("link set {link} up"));
            host.ip(&format!("address add {address}/24 dev {link}"));
        }
        inside.ip(&format!("route add default via {OUTSIDE} dev wan"));
        inside.ip(&format!("route add local {ANYCAST} dev lo"));
        let socket = within(outside.process(), || UdpSocket::bind((OUTSIDE, ECHO)))?;
        socket.set_read_timeout(Some(PAUSE))?;
        let stop = Arc::new(AtomicBool::new(false));
        let of_echo = Arc::clone(&stop);
        let echo = std::thread::spawn(move || answer(&socket, &of_echo));
        Ok(Self {
            inside,
            _outside: outside,
            echo: Some(echo),
            stop,
        })
    }

    /// Runs `body` where the gateway is to be.
    pub(crate) fn within<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        within(self.inside.process(), body)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(echo) = self.echo.take() {
            // Its panic would be shown already.
            let _ = echo.join();
        }
    }
}

/// Opens a service at an address that is this host's by a route alone, as agents of clouds make it
/// for load balancers.
pub(crate) fn anycast_service() -> Result<(TcpListener, SocketAddr), HostileError> {
    let service = TcpListener::bind((ANYCAST, 0))?;
    let address = service.local_addr()?;
    Ok((service, address))
}

/// Connections that the kernel tracks in this thread's namespace, but for those over loopback: of
/// what honest clients have closed, thousands are there for two minutes.
pub(crate) fn tracked() -> Option<u64> {
    let Ok(entries) = fs::read_to_string("/proc/thread-self/net/nf_conntrack") else {
        // Some kernels only tell how many there are.
        let count = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_count").ok()?;
        return count.trim().parse().ok();
    };
    let are_out = entries.lines().filter(|it| !it.contains("src=127.0.0.1 "));
    Some(are_out.count() as u64)
}

/// Sends each datagram back.
fn answer(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    }
}

fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root makes network namespaces".to_owned());
    }
    if fs::OpenOptions::new()
        .write(true)
        .open("/dev/net/tun")
        .is_err()
    {
        return Some("there is no /dev/net/tun".to_owned());
    }
    let nft = std::process::Command::new("nft").arg("-v").output();
    no_ip().or_else(|| nft.err().map(|error| format!("cannot run nft: {error}")))
}

const GATEWAY: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 1);
/// The host outside.
pub(crate) const OUTSIDE: Ipv4Addr = Ipv4Addr::new(11, 0, 0, 2);
/// An address that no interface has.
pub(crate) const ANYCAST: Ipv4Addr = Ipv4Addr::new(11, 0, 7, 7);
/// Where the host outside answers datagrams.
pub(crate) const ECHO: u16 = 7;
const PAUSE: Duration = Duration::from_millis(100);
