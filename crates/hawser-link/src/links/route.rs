//! Queries of the kernel's routing tables.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use hawser_types::LinkIndex;
use parking_lot::Mutex;
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteType,
};
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::netlink::{PATIENCE, is_default_route};

/// The routing tables, for many queries: they share one netlink socket, and an answer is cached for
/// two seconds.
#[derive(Debug, Default)]
pub struct Routes {
    /// `None` when no socket can be opened.
    socket: OnceCell<Option<RouteSocket>>,
    lately: Mutex<Answers>,
}

/// Recent answers of the kernel.
#[derive(Debug, Default)]
struct Answers {
    known: BTreeMap<IpAddr, (bool, Instant)>,
}

#[derive(Debug)]
struct RouteSocket {
    handle: Handle,
    task: JoinHandle<()>,
}

impl Routes {
    /// Returns whether packets to `remote` avoid the default route: they go to this machine itself,
    /// to a neighbour on a link, or by a specific route, such as one of a VPN or a container
    /// network. Returns false when the kernel does not answer.
    pub async fn is_particular(&self, remote: IpAddr) -> bool {
        let remote = remote.to_canonical();
        if remote.is_loopback() || remote.is_unspecified() || remote.is_multicast() {
            return true;
        }
        let known = self.lately.lock().known(remote, Instant::now());
        if let Some(known) = known {
            return known;
        }
        let answer = self.ask_whether_particular(remote).await;
        if let Some(answer) = answer {
            self.lately.lock().note(remote, answer, Instant::now());
        }
        answer.unwrap_or(false)
    }

    /// Returns `None` when the kernel does not answer.
    async fn ask_whether_particular(&self, remote: IpAddr) -> Option<bool> {
        let socket = self.socket.get_or_init(|| async { RouteSocket::open() });
        let asking = ask(&socket.await.as_ref()?.handle, remote, None);
        let route = timeout(SHORT_PATIENCE, asking).await.ok()?.ok()??;
        Some(route.header.kind != RouteType::Unicast || !is_default_route(&route))
    }
}

impl Answers {
    fn known(&self, remote: IpAddr, now: Instant) -> Option<bool> {
        let (answer, at) = self.known.get(&remote)?;
        (now.duration_since(*at) < HOLDS).then_some(*answer)
    }

    fn note(&mut self, remote: IpAddr, answer: bool, now: Instant) {
        if self.known.len() >= MAX_ANSWERS {
            self.known
                .retain(|_, (_, at)| now.duration_since(*at) < HOLDS);
        }
        if self.known.len() >= MAX_ANSWERS {
            self.known.clear();
        }
        self.known.insert(remote, (answer, now));
    }
}

impl RouteSocket {
    fn open() -> Option<Self> {
        let opened = rtnetlink::new_connection()
            .inspect_err(|error| tracing::warn!(%error, "cannot query routes"));
        let (connection, handle, _no_events) = opened.ok()?;
        let task = tokio::spawn(connection);
        Some(Self { handle, task })
    }
}

impl Drop for RouteSocket {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns whether a routing table has a route to `remote` by the link `index`, for packets from
/// `source`. Returns true when the kernel does not answer.
///
/// A connection attempt does not show that a route is missing: for a socket bound to its link, the
/// kernel treats an IPv4 address without a route as a neighbour on that link, and no host answers.
pub async fn has_route(index: LinkIndex, source: IpAddr, remote: IpAddr) -> bool {
    let Ok((connection, handle, _no_events)) = rtnetlink::new_connection() else {
        return true;
    };
    let asking = async {
        tokio::select! {
            answer = ask(&handle, remote, Some((index, source))) => answer,
            () = connection => Ok(None),
        }
    };
    match timeout(PATIENCE, asking).await {
        Ok(Err(rtnetlink::Error::NetlinkError(error))) => {
            !matches!(-error.raw_code(), libc::ENETUNREACH | libc::EHOSTUNREACH)
        }
        _ => true,
    }
}

/// Returns the link that the kernel chooses for packets to `remote`, by all its rules and tables.
pub(super) async fn chosen_link(handle: &Handle, remote: IpAddr) -> Option<LinkIndex> {
    let asking = handle.route().get(question(remote)).execute();
    let route = std::pin::pin!(asking).try_next().await.ok()??;
    let mut outgoing = route.attributes.iter().filter_map(|it| match it {
        RouteAttribute::Oif(index) => Some(LinkIndex::new(*index)),
        _ => None,
    });
    outgoing.next()
}

/// Returns the table entry for packets to `remote`; for packets by one link and from one address,
/// if `from` is given.
async fn ask(
    handle: &Handle,
    remote: IpAddr,
    from: Option<(LinkIndex, IpAddr)>,
) -> Result<Option<RouteMessage>, rtnetlink::Error> {
    let mut question = question(remote);
    question.header.flags = RouteFlags::FibMatch;
    if let Some((index, source)) = from {
        question.header.source_prefix_length = question.header.destination_prefix_length;
        let source = RouteAttribute::Source(route_address(source));
        question
            .attributes
            .extend([source, RouteAttribute::Oif(index.value())]);
    }
    std::pin::pin!(handle.route().get(question).execute())
        .try_next()
        .await
}

fn question(remote: IpAddr) -> RouteMessage {
    let mut question = RouteMessage::default();
    let (family, length) = match remote {
        IpAddr::V4(_) => (AddressFamily::Inet, 32),
        IpAddr::V6(_) => (AddressFamily::Inet6, 128),
    };
    question.header.address_family = family;
    question.header.destination_prefix_length = length;
    question.attributes = vec![RouteAttribute::Destination(route_address(remote))];
    question
}

const fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

/// Shorter than [`PATIENCE`], since a connection waits for the answer.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);
/// Short, since routes change; a page's connections to the same few hosts are made within a moment.
const HOLDS: Duration = Duration::from_secs(2);
/// Bounds the cache, however many destinations there are.
const MAX_ANSWERS: usize = 1024;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_answer_holds_for_a_moment_and_answers_without_end_take_no_more_room() {
        let mut answers = Answers::default();
        let (now, remote) = (Instant::now(), IpAddr::from(Ipv4Addr::from_bits(7)));
        answers.note(remote, true, now);
        let soon = now + HOLDS / 2;
        assert_eq!(answers.known(remote, soon), Some(true));
        assert_eq!(answers.known(remote, now + HOLDS), None);
        for n in 0..3 * MAX_ANSWERS as u32 {
            answers.note(Ipv4Addr::from_bits(n).into(), false, soon);
            assert!(answers.known.len() <= MAX_ANSWERS);
        }
    }
}
