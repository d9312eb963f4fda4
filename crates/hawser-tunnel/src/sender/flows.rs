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
    /// Draws so far, for numbers to give away.
    drawn: u64,
    replaced: u64,
}

/// Result of a look at the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The flow has this number.
    Known(TunnelFlow),
    /// It has got this number, which no other flow had, or one that rests.
    New(TunnelFlow),
    /// Of all numbers none was found that rests.
    AllTaken,
}

impl Flows {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            numbers: HashMap::with_hasher(Seeded(seed)),
            keys: Vec::new(),
            latest: TunnelFlow::default(),
            drawn: 0,
            replaced: 0,
        }
    }

    /// Returns a flow's number, if it has one.
    pub(super) fn known(&mut self, key: &FlowKey) -> Option<TunnelFlow> {
        if self.keys.get(self.latest.index()) == Some(key) {
            return Some(self.latest);
        }
        self.latest = *self.numbers.get(key)?;
        Some(self.latest)
    }

    /// Finds a flow's number, or gives it one. `age` says for how long a number has rested, `None`
    /// while packets of it wait.
    pub(super) fn find<Age: Ord>(
        &mut self,
        key: &FlowKey,
        age: impl Fn(TunnelFlow) -> Option<Age>,
    ) -> Found {
        if let Some(flow) = self.known(key) {
            return Found::Known(flow);
        }
        let unused = u16::try_from(self.keys.len()).ok();
        if let Some(flow) = unused.and_then(TunnelFlow::new) {
            self.keys.push(*key);
            self.numbers.insert(*key, flow);
            return Found::New(flow);
        }
        let draws = self.drawn..self.drawn + LOOK_AT;
        self.drawn = draws.end;
        let flows = draws.filter_map(|draw| self.place(&draw));
        let oldest = flows.filter_map(|flow| Some((age(flow)?, flow))).max();
        let Some((_, flow)) = oldest else {
            return Found::AllTaken;
        };
        let old = std::mem::replace(&mut self.keys[flow.index()], *key);
        self.numbers.remove(&old);
        self.numbers.insert(*key, flow);
        self.replaced += 1;
        Found::New(flow)
    }

    /// Returns the number that a flow without one shares: one of these, or of all where there are
    /// none.
    pub(super) fn shared_by(&self, key: &FlowKey, flows: &[TunnelFlow]) -> TunnelFlow {
        let hash = self.numbers.hasher().hash_one(key) as usize;
        match hash.checked_rem(flows.len()) {
            Some(place) => flows[place],
            None => self.place(key).unwrap_or_default(),
        }
    }

    /// Returns the place of a value in the table: always the same, and unpredictable for peers.
    fn place(&self, value: &impl Hash) -> Option<TunnelFlow> {
        let hash = self.numbers.hasher().hash_one(value) as usize;
        TunnelFlow::new(hash.checked_rem(self.keys.len())? as u16)
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

/// Numbers that are drawn for one that rests. Where half of them do, none is found once in 2^32.
const LOOK_AT: u64 = 32;

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
    fn the_table_ends_where_it_should_and_gives_away_what_has_rested_long() {
        let mut flows = Flows::new(7);
        let count = u32::from(TunnelFlow::COUNT);
        for number in 0..count {
            let flow = TunnelFlow::new(number as u16).unwrap();
            assert_eq!(flows.find(&key(number), |_| None::<u8>), Found::New(flow));
            assert_eq!(flows.find(&key(number), |_| None::<u8>), Found::Known(flow));
        }
        let age = |flow: TunnelFlow| flow.value().is_multiple_of(2).then_some(flow.value());
        let Found::New(old) = flows.find(&key(count), age) else {
            panic!("half of them rest");
        };
        // The oldest of 32.
        assert!(age(old) > Some(3000), "{old:?}");
        assert_eq!(flows.find(&key(count), age), Found::Known(old));
        let taken = flows.find(&key(count + 1), |_| None::<u8>);
        assert_eq!(taken, Found::AllTaken);
        for number in 0..100_000 {
            flows.find(&key(number), |flow| Some(flow.value()));
        }
        assert_eq!(flows.keys.len(), count as usize);
        assert_eq!(flows.numbers.len(), count as usize);
    }
}
