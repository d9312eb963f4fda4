//! Which flow has which number, in a table that never grows beyond its bound.

use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hash};

use hawser_wire::tunnel::TunnelFlow;

use crate::packet::FlowKey;

/// Numbers of flows.
#[derive(Debug)]
pub(super) struct Flows {
    numbers: HashMap<FlowKey, TunnelFlow, Seeded>,
    /// The flow that has each number.
    keys: Vec<FlowKey>,
    /// The flow that was found last, which most packets belong to.
    latest: TunnelFlow,
    /// Where the search for a number to give away goes on.
    hand: usize,
    replaced: u64,
}

/// Result of a look at the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The flow has this number.
    Known(TunnelFlow),
    /// It has got this number, which no other flow had, or one that rests.
    New(TunnelFlow),
    /// All numbers are in use: it shares this one.
    Shared(TunnelFlow),
}

impl Flows {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            numbers: HashMap::with_hasher(Seeded(seed)),
            keys: Vec::new(),
            latest: TunnelFlow::default(),
            hand: 0,
            replaced: 0,
        }
    }

    /// Finds a flow's number. `age` says for how long a number has rested, `None` while packets of
    /// it wait.
    pub(super) fn find<Age: Ord>(
        &mut self,
        key: &FlowKey,
        age: impl Fn(TunnelFlow) -> Option<Age>,
    ) -> Found {
        if self.keys.get(self.latest.index()) == Some(key) {
            return Found::Known(self.latest);
        }
        if let Some(flow) = self.numbers.get(key) {
            self.latest = *flow;
            return Found::Known(*flow);
        }
        let unused = u16::try_from(self.keys.len()).ok();
        if let Some(flow) = unused.and_then(TunnelFlow::new) {
            self.keys.push(*key);
            self.numbers.insert(*key, flow);
            return Found::New(flow);
        }
        let candidates = (self.hand..self.hand + LOOK_AT).map(|at| at % self.keys.len());
        self.hand = (self.hand + LOOK_AT) % self.keys.len();
        let flows = candidates.filter_map(|at| TunnelFlow::new(at as u16));
        let oldest = flows.filter_map(|flow| Some((age(flow)?, flow))).max();
        let Some((_, flow)) = oldest else {
            let hash = self.numbers.hasher().hash_one(key);
            let place = (hash % self.keys.len() as u64) as u16;
            return Found::Shared(TunnelFlow::new(place).unwrap_or_default());
        };
        let old = std::mem::replace(&mut self.keys[flow.index()], *key);
        self.numbers.remove(&old);
        self.numbers.insert(*key, flow);
        self.replaced += 1;
        Found::New(flow)
    }

    /// The flow of each number.
    pub(super) fn keys(&self) -> &[FlowKey] {
        &self.keys
    }

    pub(super) const fn replaced(&self) -> u64 {
        self.replaced
    }
}

/// SipHash with a seed in front, since who sends packets must not choose their places.
#[derive(Clone, Copy, Debug)]
struct Seeded(u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher
    }
}

/// Numbers that are looked at for one that rests.
const LOOK_AT: usize = 32;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key(number: u32) -> FlowKey {
        FlowKey {
            source: Ipv4Addr::from(number).into(),
            destination: Ipv4Addr::LOCALHOST.into(),
            protocol: 17,
            dscp: 0,
            ports: (1, 2),
        }
    }

    #[test]
    fn the_table_ends_where_it_should_and_gives_away_what_has_rested_longest() {
        let mut flows = Flows::new(7);
        let count = u32::from(TunnelFlow::COUNT);
        for number in 0..count {
            let flow = TunnelFlow::new(number as u16).unwrap();
            assert_eq!(flows.find(&key(number), |_| None::<u8>), Found::New(flow));
            assert_eq!(flows.find(&key(number), |_| None::<u8>), Found::Known(flow));
        }
        let age = |flow: TunnelFlow| (flow.value() != 31).then_some(flow.value());
        let oldest = TunnelFlow::new(30).unwrap();
        assert_eq!(flows.find(&key(count), age), Found::New(oldest));
        assert_eq!(flows.find(&key(count), age), Found::Known(oldest));
        let shared = flows.find(&key(count + 1), |_| None::<u8>);
        assert!(matches!(shared, Found::Shared(_)));
        for number in 0..100_000 {
            flows.find(&key(number), |flow| Some(flow.value()));
        }
        assert_eq!(flows.keys.len(), count as usize);
        assert_eq!(flows.numbers.len(), count as usize);
    }
}
