use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use hawser_types::ByteCount;

/// Limits of what strangers and clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptLimits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Connections that have not proved who they are, in all.
    pub half_open: usize,
    /// The same, from one IPv4 address or one IPv6 /64.
    pub half_open_per_source: usize,
    /// For the data of all sessions together: half for what waits to be handed on, half for what is
    /// not acknowledged. A session has at most a quarter of it, and less when there are more.
    pub memory: ByteCount,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            sessions: 1024,
            sessions_per_client: 16,
            half_open: 512,
            half_open_per_source: 32,
            memory: ByteCount::from_mib(1024),
        }
    }
}

/// Counts the connections that have not proved who they are.
#[derive(Clone, Debug)]
pub(super) struct HalfOpen {
    limits: AcceptLimits,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    by_source: HashMap<IpAddr, usize>,
}

/// A place among the half-open connections; dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    counts: Arc<Mutex<Counts>>,
    source: IpAddr,
}

impl HalfOpen {
    pub(super) fn new(limits: AcceptLimits) -> Self {
        Self {
            limits,
            counts: Arc::default(),
        }
    }

    /// A place for a connection from `address`, unless there are too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Place> {
        let source = source_of(address);
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let from_there = counts.by_source.get(&source).copied().unwrap_or(0);
        if counts.all >= self.limits.half_open || from_there >= self.limits.half_open_per_source {
            return None;
        }
        counts.all += 1;
        counts.by_source.insert(source, from_there + 1);
        Some(Place {
            counts: Arc::clone(&self.counts),
            source,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.all = counts.all.saturating_sub(1);
        if let Some(count) = counts.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                counts.by_source.remove(&self.source);
            }
        }
    }
}

/// One customer's addresses: an IPv4 address, or an IPv6 /64.
fn source_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let prefix = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(prefix.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_cannot_take_every_place() {
        let limits = AcceptLimits {
            half_open: 3,
            half_open_per_source: 2,
            ..Default::default()
        };
        let half_open = HalfOpen::new(limits);
        let one = || half_open.enter("2001:db8::1".parse().unwrap());
        let neighbour = || half_open.enter("2001:db8::ffff".parse().unwrap());
        let (first, second) = (one(), neighbour());
        assert!(first.is_some() && second.is_some() && one().is_none());
        let other = half_open.enter("192.0.2.1".parse().unwrap());
        assert!(other.is_some());
        assert!(half_open.enter("192.0.2.2".parse().unwrap()).is_none());
        drop(first);
        assert!(neighbour().is_some());
    }
}
