use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hawser_types::ByteCount;
use serde::Serialize;

use super::client::LimitReason;
use crate::address::Refusal;
use crate::relay::RelayCounters;
use crate::tally::Tally;
use crate::transport::DialError;

/// Counts of a gateway since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GatewayStats {
    /// Streams that clients have opened.
    pub opened: u64,
    /// Streams that are open now, including those that are still connecting.
    pub current: u64,
    /// Streams that reached their destination.
    pub connected: u64,
    /// Connections to ports of services that were relayed unchanged.
    pub passed_on: u64,
    /// Streams refused, by the cause that was sent to the client.
    pub refused: BTreeMap<DialError, u64>,
    /// Addresses refused by the policy, by reason. A name may have several.
    pub refused_addresses: BTreeMap<Refusal, u64>,
    /// Streams refused because of a limit, by limit.
    pub limited: BTreeMap<LimitReason, u64>,
    /// Bytes from clients to destinations.
    pub bytes_up: ByteCount,
    /// Bytes from destinations to clients.
    pub bytes_down: ByteCount,
}

/// The live counters behind [`GatewayStats`].
#[derive(Debug, Default)]
pub struct GatewayCounters {
    pub(super) opened: AtomicU64,
    pub(super) current: AtomicU64,
    pub(super) connected: AtomicU64,
    pub(super) passed_on: AtomicU64,
    pub(super) refused: Tally<DialError>,
    pub(super) refused_addresses: Tally<Refusal>,
    pub(super) limited: Tally<LimitReason>,
    pub(super) bytes: RelayCounters,
}

impl GatewayCounters {
    /// The counts of this moment.
    pub fn snapshot(&self) -> GatewayStats {
        GatewayStats {
            opened: self.opened.load(Ordering::Relaxed),
            current: self.current.load(Ordering::Relaxed),
            connected: self.connected.load(Ordering::Relaxed),
            passed_on: self.passed_on.load(Ordering::Relaxed),
            refused: self.refused.snapshot(),
            refused_addresses: self.refused_addresses.snapshot(),
            limited: self.limited.snapshot(),
            bytes_up: self.bytes.up(),
            bytes_down: self.bytes.down(),
        }
    }
}
