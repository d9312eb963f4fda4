//! What the open connections have moved, and what their links are charged with for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hawser_path::{Activity, DemandKey, Segments};
use hawser_policy::Class;
use hawser_sched::connection::{Demand, Load, remaining};
use hawser_types::{ByteCount, Instant};

use super::super::flow::Moved;
use super::super::link_book::{LinkBook, MOST_SLOW};
use super::super::sites::Site;
use super::super::story::TryId;
use super::{Inner, way_of};

/// One open connection.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where it is told of it.
    pub(super) told: Option<TryId>,
    pub(super) begun: Instant,
    pub(super) link: u32,
    pub(super) key: DemandKey,
    pub(super) demand: Demand,
    /// Where it leads; `None` where that does not matter.
    pub(super) site: Option<Site>,
    pub(super) moved: Arc<Moved>,
    pub(super) activity: Activity,
    pub(super) segments: Segments,
    pub(super) connected: Option<Instant>,
    /// What its link is charged with for it.
    pub(super) charge: Load,
}

impl Inner {
    /// Brings the loads of the links up to date, unless that was done a moment ago.
    pub(in super::super) fn sweep(&mut self, now: Instant) {
        if now.since(self.swept) >= SWEEP_EVERY {
            self.sweep_now(now);
        }
    }

    pub(super) fn sweep_now(&mut self, now: Instant) {
        self.swept = now;
        for book in self.books_mut() {
            (book.load, book.calls) = (Load::default(), 0);
        }
        let mut flows = std::mem::take(&mut self.flows);
        for entry in flows.values_mut() {
            self.settle(entry, now);
            let book = self.book_mut(entry.link);
            let latency = book.map_or(Duration::ZERO, |book| book.latency.smoothed());
            // One that is not connected yet waits for its link and nothing else, if it still waits.
            let waits = entry.connected.is_none() && now.since(entry.begun) < MOST_SLOW;
            let is_idle = !waits && entry.activity.is_idle(now, latency);
            if is_idle && entry.connected.is_some() {
                self.learn_burst(entry, now);
            }
            let [up, down] = entry.activity.moved();
            entry.charge = match is_idle {
                true => Load::default(),
                false => Load {
                    connections: 1,
                    up: remaining(entry.demand.up, up),
                    down: remaining(entry.demand.down, down),
                },
            };
            self.charge(entry);
        }
        for book in self.books_mut() {
            if book.load == Load::default() {
                book.latency.on_empty();
            }
        }
        self.flows = flows;
    }

    /// The books of all links, and of the gateway.
    fn books_mut(&mut self) -> impl Iterator<Item = &mut LinkBook> {
        let gateway = self.gateway.iter_mut().map(|gateway| &mut gateway.book);
        self.links.values_mut().chain(gateway)
    }

    /// The links that carried something both ways, sent and received, all the time since this was
    /// last asked: some connection moved then, and had moved before. Calls do not count, since they
    /// never want more than they have.
    pub(super) fn busy(&mut self) -> BTreeMap<u32, [bool; 2]> {
        let mut busy: BTreeMap<u32, [bool; 2]> = BTreeMap::new();
        for entry in self.flows.values_mut() {
            let of_link = busy.entry(entry.link).or_default();
            let was_busy = entry.activity.was_busy();
            for way in 0..2 {
                of_link[way] |= was_busy[way] && entry.demand.class != Class::RealTime;
            }
        }
        busy
    }

    /// Enters what a connection has moved since it was last looked at.
    pub(super) fn settle(&mut self, entry: &mut Entry, now: Instant) {
        let before = entry.activity.moved();
        let seen = entry.moved.read();
        let [up, down] = [seen[0] - before[0], seen[1] - before[1]];
        match entry.moved.take_since() {
            Some(since) => entry.activity.on_moved_since(since, now, seen),
            None => entry.activity.on_moved(now, seen),
        }
        if up + down == ByteCount::ZERO {
            return;
        }
        if let (Some(gateway), Some(site)) = (&mut self.gateway, &entry.site) {
            let by = way_of(entry.link);
            gateway.sites.on_moved(site, by, now, [up, down]);
        }
        // What goes by a session is counted there.
        let Some(book) = self.links.get_mut(&entry.link) else {
            return;
        };
        // What is received has come by this link, and so has what tells of it.
        let heard = entry
            .moved
            .heard()
            .or((down > ByteCount::ZERO).then_some(now));
        if let Some(heard) = heard {
            book.record.handle_answer(heard);
        }
        let name = &book.link.name;
        if self.moved.len() < MAX_NAMES || self.moved.contains_key(name) {
            let total = self.moved.entry(name.clone()).or_default();
            *total = [total[0] + up, total[1] + down];
        }
    }

    /// The link of a connection that pauses or has ended can do what that made of it at least: many
    /// live on long after they have moved the last of it.
    pub(super) fn learn_burst(&mut self, entry: &mut Entry, now: Instant) {
        let Some((moved, took)) = entry.activity.take_burst() else {
            return;
        };
        if let Some(book) = self.book_mut(entry.link) {
            book.handle_transfer(now, moved, took);
        }
    }

    pub(super) fn charge(&mut self, entry: &Entry) {
        if let Some(book) = self.book_mut(entry.link) {
            let (load, charge) = (&mut book.load, entry.charge);
            load.connections = load.connections.saturating_add(charge.connections);
            load.up += charge.up;
            load.down += charge.down;
            book.calls += u32::from(entry.is_call());
        }
    }

    pub(super) fn give_back(&mut self, entry: &Entry) {
        if let Some(book) = self.book_mut(entry.link) {
            let (load, charge) = (&mut book.load, entry.charge);
            load.connections = load.connections.saturating_sub(charge.connections);
            load.up -= charge.up;
            load.down -= charge.down;
            book.calls = book.calls.saturating_sub(u32::from(entry.is_call()));
        }
    }
}

impl Entry {
    /// One that was never answered, as far as anybody knows, is one as long as it is open: what the
    /// kernel placed as datagrams is seen neither to be answered nor to move anything.
    fn is_call(&self) -> bool {
        let lives = self.charge.connections > 0 || self.connected.is_none();
        self.demand.class == Class::RealTime && lives
    }
}

/// Loads that are this old are as good as new.
const SWEEP_EVERY: Duration = Duration::from_millis(50);
/// Interfaces of containers come and go under ever new names.
const MAX_NAMES: usize = 256;
