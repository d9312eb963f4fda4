use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_types::ByteCount;
use serde::Serialize;

use super::parse::Malformed;
use crate::relay::RelayCounters;
use crate::tally::{Seldom, Tally};
use crate::transport::DialError;

/// Counts of a proxy port since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ProxyStats {
    /// Connections accepted and served.
    pub accepted: u64,
    /// Connections open now.
    pub current: u64,
    /// Connections closed at once, and associations refused, because there were too many.
    pub over_limit: u64,
    /// Failures of accepting, mostly for want of file descriptors.
    pub accept_errors: u64,
    /// SOCKS5 requests.
    pub socks5: u64,
    /// SOCKS4 and SOCKS4a requests.
    pub socks4: u64,
    /// HTTP CONNECT requests.
    pub http_tunnels: u64,
    /// Plain HTTP requests, of which one connection may carry many.
    pub http_requests: u64,
    /// Clients that did not finish a request in time.
    pub slow_clients: u64,
    /// Malformed requests and datagrams of clients that were refused, by reason.
    pub malformed: BTreeMap<Malformed, u64>,
    /// Responses of HTTP servers refused, by reason.
    pub malformed_responses: BTreeMap<Malformed, u64>,
    /// Destinations that could not be reached, by cause.
    pub dial_errors: BTreeMap<DialError, u64>,
    /// Connections refused: rules need the program, which was not identified in time.
    pub unknown_askers: u64,
    /// Ports for datagrams that are open now.
    pub associations: u64,
    /// Datagrams from clients to destinations.
    pub datagrams_up: u64,
    /// Datagrams from destinations to clients.
    pub datagrams_down: u64,
    /// Datagrams that were not forwarded: malformed, from another sender, without a way, or more
    /// than could be sent.
    pub datagrams_dropped: u64,
    /// Bytes from clients to destinations, in connections and datagrams.
    pub bytes_up: ByteCount,
    /// Bytes from destinations to clients, likewise.
    pub bytes_down: ByteCount,
}

/// The live counters behind [`ProxyStats`].
#[derive(Debug, Default)]
pub struct ProxyCounters {
    pub(super) accepted: AtomicU64,
    pub(super) current: AtomicU64,
    pub(super) over_limit: AtomicU64,
    pub(super) accept_errors: AtomicU64,
    pub(super) socks5: AtomicU64,
    pub(super) socks4: AtomicU64,
    pub(super) http_tunnels: AtomicU64,
    pub(super) http_requests: AtomicU64,
    pub(super) slow_clients: AtomicU64,
    pub(super) malformed: Tally<Malformed>,
    pub(super) malformed_responses: Tally<Malformed>,
    pub(super) dial_errors: Tally<DialError>,
    pub(super) unknown_askers: AtomicU64,
    pub(super) associations: AtomicU64,
    pub(super) datagrams_up: AtomicU64,
    pub(super) datagrams_down: AtomicU64,
    pub(super) datagrams_dropped: AtomicU64,
    pub(crate) bytes: RelayCounters,
    /// Limits log lines about refused connections.
    pub(super) refusals: Seldom,
}

impl ProxyCounters {
    /// The counts of this moment.
    pub fn snapshot(&self) -> ProxyStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProxyStats {
            accepted: read(&self.accepted),
            current: read(&self.current),
            over_limit: read(&self.over_limit),
            accept_errors: read(&self.accept_errors),
            socks5: read(&self.socks5),
            socks4: read(&self.socks4),
            http_tunnels: read(&self.http_tunnels),
            http_requests: read(&self.http_requests),
            slow_clients: read(&self.slow_clients),
            malformed: self.malformed.snapshot(),
            malformed_responses: self.malformed_responses.snapshot(),
            dial_errors: self.dial_errors.snapshot(),
            unknown_askers: read(&self.unknown_askers),
            associations: read(&self.associations),
            datagrams_up: read(&self.datagrams_up),
            datagrams_down: read(&self.datagrams_down),
            datagrams_dropped: read(&self.datagrams_dropped),
            bytes_up: self.bytes.up(),
            bytes_down: self.bytes.down(),
        }
    }
}
