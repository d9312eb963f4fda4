//! What the open connections have moved, and what their links are charged with for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_policy::Class;
use hawser_sched::connection::{Demand, Load, remaining};
use hawser_types::{ByteCount, Instant};

use super::super::demands::DemandKey;
use super::super::flow::Moved;
use super::Inner;

/// One open connection.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) link: u32,
    pub(super) key: DemandKey,
    pub(super) demand: Demand,
    pub(super) moved: Arc<Moved>,
    pub(super) seen: [ByteCount; 2],
    pub(super) active: Instant,
    /// What it had moved when the interfaces were last counted, and whether it had then moved.
    pub(super) counted: [ByteCount; 2],
    pub(super) moves: [bool; 2],
    pub(super) connected: Option<Instant>,
    /// What its link is charged with for it.
    pub(super) charge: Load,
}

impl Inner {
    /// Brings the loads of the links up to date, unless that was done a moment ago.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now.since(self.swept) >= SWEEP_EVERY {
            self.sweep_now(now);
        }
    }

    pub(super) fn sweep_now(&mut self, now: Instant) {
        self.swept = now;
        for book in self.links.values_mut() {
            (book.load, book.calls) = (Load::default(), 0);
        }
        let mut flows = std::mem::take(&mut self.flows);
        for entry in flows.values_mut() {
            let before = entry.seen;
            self.settle(entry);
            if entry.seen != before {
                entry.active = now;
            }
            let [up, down] = entry.seen;
            entry.charge = match now.since(entry.active) < IDLE_AFTER {
                true => Load {
                    connections: 1,
                    up: remaining(entry.demand.up, up),
                    down: remaining(entry.demand.down, down),
                },
                false => Load::default(),
            };
            self.charge(entry);
        }
        self.flows = flows;
    }

    /// The links that carried something both ways, sent and received, all the time since this was
    /// last asked: some connection moved then, and had moved before. Calls do not count, since they
    /// never want more than they have.
    pub(super) fn busy(&mut self) -> BTreeMap<u32, [bool; 2]> {
        let mut busy: BTreeMap<u32, [bool; 2]> = BTreeMap::new();
        for entry in self.flows.values_mut() {
            let of_link = busy.entry(entry.link).or_default();
            let counted = std::mem::replace(&mut entry.counted, entry.seen);
            for way in 0..2 {
                let moves = entry.seen[way] > counted[way];
                let moved = std::mem::replace(&mut entry.moves[way], moves);
                of_link[way] |= moves && moved && entry.demand.class != Class::RealTime;
            }
        }
        busy
    }

    /// Enters what a connection has moved since it was last looked at.
    pub(super) fn settle(&mut self, entry: &mut Entry) {
        let seen = entry.moved.read();
        let [up, down] = [seen[0] - entry.seen[0], seen[1] - entry.seen[1]];
        entry.seen = seen;
        let Some(book) = self.links.get_mut(&entry.link) else {
            return;
        };
        if up + down == ByteCount::ZERO {
            return;
        }
        if down > ByteCount::ZERO {
            // What is received has come by this link.
            book.record.handle_answer();
        }
        let name = &book.link.name;
        if self.moved.len() < MAX_NAMES || self.moved.contains_key(name) {
            let total = self.moved.entry(name.clone()).or_default();
            *total = [total[0] + up, total[1] + down];
        }
    }

    pub(super) fn charge(&mut self, entry: &Entry) {
        if let Some(book) = self.links.get_mut(&entry.link) {
            let (load, charge) = (&mut book.load, entry.charge);
            load.connections = load.connections.saturating_add(charge.connections);
            load.up += charge.up;
            load.down += charge.down;
            book.calls += u32::from(entry.is_call());
        }
    }

    pub(super) fn give_back(&mut self, entry: &Entry) {
        if let Some(book) = self.links.get_mut(&entry.link) {
            let (load, charge) = (&mut book.load, entry.charge);
            load.connections = load.connections.saturating_sub(charge.connections);
            load.up -= charge.up;
            load.down -= charge.down;
            book.calls = book.calls.saturating_sub(u32::from(entry.is_call()));
        }
    }
}

impl Entry {
    fn is_call(&self) -> bool {
        self.demand.class == Class::RealTime && self.charge.connections > 0
    }
}

/// Loads that are this old are as good as new.
const SWEEP_EVERY: Duration = Duration::from_millis(50);
/// A connection that has moved nothing for so long counts for nothing until it moves again.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// Interfaces of containers come and go under ever new names.
const MAX_NAMES: usize = 256;
