//! Name servers of each link, from the files that other programs write.

mod files;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::links::{self, DefaultRoute, Link};
use files::PORT;

/// A link and the servers to ask over it, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkServers {
    pub(super) link: Link,
    pub(super) servers: Vec<SocketAddr>,
}

/// Finds every link's servers; caches them for a moment.
#[derive(Debug)]
pub(super) struct ServerFinder {
    /// `/`, except in tests.
    root: PathBuf,
    latest: Mutex<Option<(Instant, Vec<LinkServers>)>>,
}

impl ServerFinder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            latest: Mutex::default(),
        }
    }

    /// Returns the servers of each of `links`.
    pub(super) async fn find(&self, links: &[Link]) -> Vec<LinkServers> {
        let same_links = |found: &[LinkServers]| {
            let known = found.iter().map(|target| &target.link);
            known.eq(links.iter().take(MAX_LINKS))
        };
        let latest = self.latest.lock().clone();
        if let Some((at, found)) = latest
            && at.elapsed() < MAX_AGE
            && same_links(&found)
        {
            return found;
        }
        let routes = timeout(KERNEL_PATIENCE, links::default_routes()).await;
        let routes = routes.ok().and_then(Result::ok).unwrap_or_default();
        let common = files::common(&self.root);
        let of_link = |link: &Link| LinkServers {
            link: link.clone(),
            servers: choose(link, files::of_link(&self.root, link), &common, &routes),
        };
        let found: Vec<_> = links.iter().take(MAX_LINKS).map(of_link).collect();
        *self.latest.lock() = Some((Instant::now(), found.clone()));
        found
    }

    /// Returns all servers of `links` and of the whole machine, resolvers on this machine included.
    pub(super) async fn find_all(&self, links: &[Link]) -> Vec<SocketAddr> {
        let of_links = self.find(links).await;
        let of_links = of_links.into_iter().flat_map(|target| target.servers);
        let of_machine = files::named(&self.root).into_iter();
        let of_machine = of_machine.map(|address| SocketAddr::new(address, PORT));
        let mut all = Vec::new();
        for server in of_machine.chain(of_links) {
            let is_link_local = match server.ip() {
                IpAddr::V6(address) => address.is_unicast_link_local(),
                IpAddr::V4(_) => false,
            };
            if !is_link_local && !server.ip().is_unspecified() && !all.contains(&server) {
                all.push(server);
            }
        }
        all
    }
}

/// Returns a link's own servers; without any, those of the whole machine and the link's router,
/// which usually answers for the network behind it.
///
/// `own`: `None` if the link's servers are unknown, which differs from an empty list.
fn choose(
    link: &Link,
    own: Option<Vec<IpAddr>>,
    common: &[IpAddr],
    routes: &[DefaultRoute],
) -> Vec<SocketAddr> {
    if link.loopback {
        // Only the system's resolver listens on loopback.
        return Vec::new();
    }
    let candidates = own.unwrap_or_else(|| {
        let routers = routes.iter().filter(|route| route.link == link.index);
        let routers = routers.filter_map(|route| route.gateway);
        let common = common.iter().copied().take(MAX_COMMON);
        common.chain(routers).collect()
    });
    let mut servers: Vec<SocketAddr> = Vec::new();
    for address in candidates {
        let server = socket_address(link, address.to_canonical());
        let reachable = !address.is_loopback() && !address.is_unspecified();
        let same_family = |own: &IpAddr| own.is_ipv4() == server.is_ipv4();
        if reachable
            && link.addresses.iter().any(same_family)
            && servers.len() < MAX_SERVERS
            && !servers.contains(&server)
        {
            servers.push(server);
        }
    }
    servers
}

fn socket_address(link: &Link, address: IpAddr) -> SocketAddr {
    match address {
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            SocketAddrV6::new(address, PORT, 0, link.index.value()).into()
        }
        _ => SocketAddr::new(address, PORT),
    }
}

/// Returns whether servers of links can know a name. The system's resolver finds other names: in
/// files, by the machine's search domains or by asking neighbours. Addresses of private networks
/// differ in meaning behind each link.
///
/// Source: RFC 6761 §6.3 (localhost), RFC 6762 §3 (local), RFC 7686 §2 (onion), RFC 6303 §4 (zones
/// of private addresses).
pub(super) fn may_be_asked(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    match name.rsplit_once('.') {
        None => false,
        Some((_, "arpa")) => !is_of_private_address(name),
        Some((_, last)) => !matches!(last, "localhost" | "local" | "onion"),
    }
}

/// Returns whether `name` is the reverse name of an address that several hosts may have.
fn is_of_private_address(name: &str) -> bool {
    let below = |zone: &str| {
        let above = name.strip_suffix(zone);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    };
    let is_in_172 = || {
        let above = name.strip_suffix(".172.in-addr.arpa");
        let second = above.and_then(|above| above.rsplit('.').next()?.parse::<u8>().ok());
        second.is_some_and(|second| (16..32).contains(&second))
    };
    PRIVATE_ZONES.iter().any(|zone| below(zone)) || is_in_172()
}

/// The zones of private, link-local and loopback addresses, except 172.16.0.0/12.
const PRIVATE_ZONES: [&str; 10] = [
    "10.in-addr.arpa",
    "127.in-addr.arpa",
    "168.192.in-addr.arpa",
    "254.169.in-addr.arpa",
    "c.f.ip6.arpa",
    "d.f.ip6.arpa",
    "8.e.f.ip6.arpa",
    "9.e.f.ip6.arpa",
    "a.e.f.ip6.arpa",
    "b.e.f.ip6.arpa",
];
const MAX_LINKS: usize = 16;
const MAX_SERVERS: usize = 4;
/// Most servers that are not known to belong to the link, so that its router is asked as well.
const MAX_COMMON: usize = 3;
const MAX_AGE: Duration = Duration::from_secs(1);
/// The kernel answers from memory.
const KERNEL_PATIENCE: Duration = Duration::from_millis(200);
