//! How the hosts that one port sends to are reached.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout};

use crate::connect::DEFAULT_RESOLVE_TIMEOUT;
use crate::datagram::Place;
use crate::destination::Host;
use crate::resolve::{Resolve, addresses_of};

/// One address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) ip: IpAddr,
    /// It is reached as the system's routes have it.
    pub(super) by_routes: bool,
}

/// A datagram that waits for a way: its port and payload.
pub(super) type Waiting = (u16, Vec<u8>);

type Lookup = Pin<Box<dyn Future<Output = (Host, Vec<Way>)> + Send>>;

/// Ways that were found, and lookups with the datagrams that wait for them.
pub(super) struct Ways<P, R> {
    place: Arc<P>,
    resolver: Arc<R>,
    found: BTreeMap<Host, (Instant, Vec<Way>)>,
    waiting: BTreeMap<Host, Vec<Waiting>>,
    waiting_bytes: usize,
    running: FuturesUnordered<Lookup>,
}

impl<P: Place, R: Resolve> Ways<P, R> {
    pub(super) fn new(place: Arc<P>, resolver: Arc<R>) -> Self {
        Self {
            place,
            resolver,
            found: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            running: FuturesUnordered::new(),
        }
    }

    /// The ways to a host, if they were found lately.
    pub(super) fn known(&self, host: &Host) -> Option<&[Way]> {
        let (at, ways) = self.found.get(host)?;
        (at.elapsed() < KEPT).then_some(ways)
    }

    /// Looks for the ways to a host; the datagram waits. `false`: too many do.
    pub(super) fn look_up(&mut self, host: &Host, port: u16, payload: &[u8]) -> bool {
        let is_new = !self.waiting.contains_key(host);
        if self.waiting_bytes + payload.len() > MAX_WAITING_BYTES
            || is_new && self.waiting.len() >= MAX_LOOKUPS
        {
            return false;
        }
        let waiting = self.waiting.entry(host.clone()).or_default();
        if waiting.len() >= MAX_WAITING {
            return false;
        }
        waiting.push((port, payload.to_vec()));
        self.waiting_bytes += payload.len();
        if is_new {
            let (place, resolver) = (Arc::clone(&self.place), Arc::clone(&self.resolver));
            let lookup = find(place, resolver, host.clone());
            self.running.push(Box::pin(lookup));
        }
        true
    }

    /// The next host whose ways are known now, and what has waited for them; what waited for a host
    /// that was not found is lost.
    pub(super) fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<(Host, Vec<Waiting>)> {
        while let Poll::Ready(Some((host, ways))) = self.running.poll_next_unpin(cx) {
            let waiting = self.waiting.remove(&host).unwrap_or_default();
            let bytes: usize = waiting.iter().map(|(_, payload)| payload.len()).sum();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
            if ways.is_empty() {
                tracing::debug!(%host, "no address for datagrams");
                continue;
            }
            if self.found.len() >= MAX_FOUND {
                self.found.retain(|_, (at, _)| at.elapsed() < KEPT);
                if self.found.len() >= MAX_FOUND {
                    self.found.pop_first();
                }
            }
            self.found.insert(host.clone(), (Instant::now(), ways));
            return Poll::Ready((host, waiting));
        }
        Poll::Pending
    }
}

async fn find<P: Place, R: Resolve>(
    place: Arc<P>,
    resolver: Arc<R>,
    host: Host,
) -> (Host, Vec<Way>) {
    let found = timeout(DEFAULT_RESOLVE_TIMEOUT, addresses_of(&*resolver, &host)).await;
    let addresses = found.ok().and_then(Result::ok).unwrap_or_default();
    let ways = addresses.into_iter().map(async |ip| {
        let ip = ip.to_canonical();
        let by_routes = place.goes_by_routes(ip).await;
        Way { ip, by_routes }
    });
    let ways = join_all(ways).await;
    (host, ways)
}

/// The system's resolver does not say how long an answer is good for.
const KEPT: Duration = Duration::from_secs(60);
const MAX_FOUND: usize = 256;
const MAX_LOOKUPS: usize = 64;
/// Datagrams that wait for one host.
const MAX_WAITING: usize = 8;
const MAX_WAITING_BYTES: usize = 1 << 20;
