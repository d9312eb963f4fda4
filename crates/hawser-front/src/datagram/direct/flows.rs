//! The flows of one port.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_types::{ByteCount, LinkIndex};
use tokio::time::Instant;

use super::sockets::SocketKey;
use crate::datagram::{Books, PlaceFlows};

/// One flow, on its link.
#[derive(Debug)]
pub(super) struct Flow<B> {
    /// The flow's link. `None`: the system's routes decide.
    pub(super) link: Option<Arc<Link>>,
    /// Links that the flow used before without an answer.
    pub(super) tried: Vec<LinkIndex>,
    books: B,
    used: Instant,
    /// The flow got an answer on its link.
    answered: bool,
    /// Datagrams sent since the last one was received: time of the first, and their number.
    waits: Option<(Instant, u32)>,
    /// The flow has no other link to try.
    settled: bool,
}

/// Returns the link that a flow is on.
pub(super) fn link_of<B>(flow: &Flow<B>) -> Option<LinkIndex> {
    flow.link.as_ref().map(|link| link.index)
}

impl<B: Books> Flow<B> {
    pub(super) const fn new(
        link: Option<Arc<Link>>,
        books: B,
        tried: Vec<LinkIndex>,
        now: Instant,
    ) -> Self {
        Self {
            link,
            tried,
            books,
            used: now,
            answered: false,
            waits: None,
            settled: false,
        }
    }

    pub(super) fn socket_for(&self, remote: SocketAddr) -> SocketKey {
        let link = self.link.as_deref();
        SocketKey {
            link: link.map(|link| link.index),
            source: link.and_then(|link| link.source_address(remote.ip())),
            is_ipv6: remote.is_ipv6(),
        }
    }

    /// True if the flow got no answer in time. Without any answer yet, the time doubles with each
    /// link that was tried before. A flow that got answers waits longer: on another link the far
    /// end would see it come from another address.
    pub(super) fn is_unanswered(&self, now: Instant, patience: Duration) -> bool {
        let Some((since, count)) = self.waits.filter(|_| !self.settled) else {
            return false;
        };
        if self.answered {
            now - since >= SILENCE && count >= MANY
        } else {
            let factor = 1 << self.tried.len().min(MAX_DOUBLINGS);
            now - since >= patience.saturating_mul(factor)
        }
    }

    /// True if the flow has sent since it last received, and there may be another link.
    pub(super) const fn waits(&self) -> bool {
        self.waits.is_some() && !self.settled
    }

    /// Keeps the flow on its link even without answers: some flows are one-way.
    pub(super) const fn settle(&mut self) {
        self.settled = true;
    }

    pub(super) fn on_sent(&mut self, now: Instant, length: ByteCount) {
        self.used = now;
        let (_, count) = self.waits.get_or_insert((now, 0));
        *count = count.saturating_add(1);
        self.books.on_moved(length, ByteCount::ZERO);
    }

    fn on_received(&mut self, place: &impl PlaceFlows, now: Instant, length: ByteCount) {
        self.used = now;
        self.books.on_moved(ByteCount::ZERO, length);
        let waited = self
            .waits
            .take()
            .map_or(Duration::ZERO, |(since, _)| now - since);
        self.settled = false;
        if !std::mem::replace(&mut self.answered, true) {
            self.books.on_answer();
            for link in std::mem::take(&mut self.tried) {
                place.on_miss(link, waited);
            }
        }
    }
}

/// All flows of a port, by destination.
#[derive(Debug)]
pub(super) struct Flows<B> {
    by_remote: BTreeMap<(IpAddr, u16), Flow<B>>,
}

impl<B> Default for Flows<B> {
    fn default() -> Self {
        Self {
            by_remote: BTreeMap::new(),
        }
    }
}

impl<B: Books> Flows<B> {
    pub(super) fn has(&self, remote: SocketAddr) -> bool {
        self.by_remote.contains_key(&key(remote))
    }

    /// Takes a flow out. A flow that is not put back has ended.
    pub(super) fn take(&mut self, remote: SocketAddr) -> Option<Flow<B>> {
        self.by_remote.remove(&key(remote))
    }

    /// Puts a flow in. Beyond `limit` flows, the flow that has been idle longest is evicted.
    pub(super) fn insert(&mut self, remote: SocketAddr, flow: Flow<B>, limit: usize) {
        if self.by_remote.len() >= limit.max(1) {
            let stillest = self.by_remote.iter().min_by_key(|(_, flow)| flow.used);
            if let Some(stillest) = stillest.map(|(remote, _)| *remote) {
                self.by_remote.remove(&stillest);
            }
        }
        self.by_remote.insert(key(remote), flow);
    }

    /// Counts a received datagram. `false`: the application has not sent to that host.
    ///
    /// Source: RFC 4787 §5, address-dependent filtering.
    pub(super) fn on_received(
        &mut self,
        place: &impl PlaceFlows,
        from: SocketAddr,
        length: ByteCount,
    ) -> bool {
        let now = Instant::now();
        if let Some(flow) = self.by_remote.get_mut(&key(from)) {
            flow.on_received(place, now, length);
            return true;
        }
        // The host answers from another port, as a TFTP server does.
        let of_host = (from.ip(), 0)..=(from.ip(), u16::MAX);
        match self.by_remote.range_mut(of_host).next() {
            Some((_, flow)) => {
                flow.on_received(place, now, length);
                true
            }
            None => false,
        }
    }

    pub(super) fn expire(&mut self, now: Instant, idle: Duration) {
        self.by_remote.retain(|_, flow| now - flow.used < idle);
    }

    pub(super) fn uses(&self, socket: &SocketKey) -> bool {
        self.by_remote
            .iter()
            .any(|((ip, port), flow)| flow.socket_for(SocketAddr::new(*ip, *port)) == *socket)
    }
}

const fn key(remote: SocketAddr) -> (IpAddr, u16) {
    (remote.ip(), remote.port())
}

const MAX_DOUBLINGS: usize = 6;
/// Longer than the silences of the far end in calls and games …
const SILENCE: Duration = Duration::from_secs(3);
/// … while the application sends frequently.
const MANY: u32 = 8;
