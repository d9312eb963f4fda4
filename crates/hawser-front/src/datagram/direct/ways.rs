//! How the hosts that one port sends to are reached.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use crate::connect::DEFAULT_RESOLVE_TIMEOUT;
use crate::datagram::PlaceFlows;
use crate::datagram::questions::{Questions, Waiting};
use crate::destination::Host;
use crate::resolve::{Resolve, addresses_of};
use crate::this_machine::ThisMachine;

/// One address of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundAddress {
    pub(super) ip: IpAddr,
    /// The system's routes decide how the address is reached.
    pub(super) by_routes: bool,
}

/// Known addresses, and lookups with the datagrams that wait for them.
pub(super) struct Addresses<P, R> {
    place: Arc<P>,
    resolver: Arc<R>,
    machine: ThisMachine,
    found: BTreeMap<Host, (Instant, Vec<FoundAddress>)>,
    lookups: Questions<Vec<FoundAddress>>,
}

impl<P: PlaceFlows, R: Resolve> Addresses<P, R> {
    pub(super) fn new(place: Arc<P>, resolver: Arc<R>, machine: ThisMachine) -> Self {
        Self {
            place,
            resolver,
            machine,
            found: BTreeMap::new(),
            lookups: Questions::default(),
        }
    }

    /// Returns the addresses of a host, if they were found recently.
    pub(super) fn known(&self, host: &Host) -> Option<&[FoundAddress]> {
        let (at, ways) = self.found.get(host)?;
        (at.elapsed() < KEPT).then_some(ways)
    }

    /// Looks up the addresses of a host; the datagram waits. `false`: too many wait already.
    pub(super) fn look_up(&mut self, host: &Host, port: u16, payload: &[u8]) -> bool {
        let (place, resolver, machine) = (&self.place, &self.resolver, &self.machine);
        self.lookups.ask(host, port, payload, || {
            let by = (Arc::clone(place), Arc::clone(resolver));
            find(by, machine.clone(), host.clone())
        })
    }

    /// Returns the next host whose lookup succeeded, and the datagrams that waited for it.
    /// Datagrams for a host that was not found are lost.
    pub(super) fn poll_found(&mut self, cx: &mut Context<'_>) -> Poll<(Host, Vec<Waiting>)> {
        while let Poll::Ready((host, ways, waiting)) = self.lookups.poll_answered(cx) {
            if ways.is_empty() {
                tracing::debug!(%host, "can't find a host's address, dropping datagrams to it");
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

async fn find<P: PlaceFlows, R: Resolve>(
    (place, resolver): (Arc<P>, Arc<R>),
    machine: ThisMachine,
    host: Host,
) -> Vec<FoundAddress> {
    let found = timeout(DEFAULT_RESOLVE_TIMEOUT, addresses_of(&*resolver, &host)).await;
    let mut addresses = found.ok().and_then(Result::ok).unwrap_or_default();
    if let Host::Name(name) = &host {
        addresses = machine.admitted_of_name(name.as_str(), addresses).await;
    }
    let ways = addresses.into_iter().map(async |ip| {
        let ip = ip.to_canonical();
        let by_routes = place.goes_by_routes(ip).await;
        FoundAddress { ip, by_routes }
    });
    join_all(ways).await
}

/// Time for which an address is kept: the system's resolver does not report a time to live.
const KEPT: Duration = Duration::from_secs(60);
const MAX_FOUND: usize = 256;
