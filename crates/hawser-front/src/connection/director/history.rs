//! What the director remembers of the latest connections.

use std::net::IpAddr;
use std::time::Duration;

use hawser_sched::connection::{Demand, Reason};
use hawser_types::{ByteCount, Instant};

use super::{Director, Inner};
use crate::connection::Origin;
use crate::connection::decision::Decision;
use crate::connection::place::Placing;
use crate::connection::story::{LeftTo, Story, TryId, TryState};
use crate::destination::Destination;
use crate::transport::DialError;

impl Director {
    /// What was decided of the latest connections, `count` at most, and what became of them; the
    /// latest last. With it the moment that this is asked at, on the same clock.
    pub fn stories(&self, count: usize) -> (Instant, Vec<Story>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.bring_up_to_date(now);
        let mut latest: Vec<Story> = inner.stories.all().rev().take(count).cloned().collect();
        latest.reverse();
        (now, latest)
    }

    /// The same for the one with this number; `None` where it is too long ago, or never was.
    pub fn story(&self, number: u64) -> (Instant, Option<Story>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.bring_up_to_date(now);
        let story = inner.stories.find(number).map(|story| story.clone());
        (now, story)
    }

    /// The latest number that a story has; 0 before the first.
    pub fn latest_story(&self) -> u64 {
        self.lock().stories.latest()
    }

    /// A connection goes to the peer at `address` over a session, so that no link is chosen for it.
    pub fn note_bonded(&self, destination: &Destination, origin: &Origin, address: IpAddr) {
        let now = self.now();
        let mut inner = self.lock();
        let origin = origin.towards(destination);
        let placing = Placing::new(&mut inner, &origin, now);
        let story = placing.story(Vec::new(), None, Some(LeftTo::Peer(address)));
        inner.stories.begin(story);
    }

    /// The kernel's program has placed the connection by itself, for this reason and with this
    /// expectation.
    pub(in crate::connection) fn note_kernels(
        &self,
        decision: &Decision,
        reason: Option<Reason>,
        demand: Demand,
    ) {
        if let Some(story) = self.lock().stories.find(decision.story) {
            story.is_kernels = true;
            (story.reason, story.demand) = (reason, demand);
        }
    }

    /// A try begins that goes as the system's routes have it.
    pub(in crate::connection) fn note_by_system(&self, decision: &Decision) {
        let now = self.now();
        self.lock().stories.try_over(decision.story, None, now);
    }

    /// It never came about.
    pub(in crate::connection) fn note_failure(&self, decision: &Decision, error: DialError) {
        if let Some(story) = self.lock().stories.find(decision.story) {
            story.failed = Some(error);
        }
    }

    /// One try has failed, and is about to end.
    pub(in crate::connection) fn note_refused(&self, flow: u64, error: DialError) {
        let mut inner = self.lock();
        let told = inner.flows.get(&flow).and_then(|entry| entry.told);
        if let Some(one) = told.and_then(|told| inner.stories.find_try(told)) {
            one.state = TryState::Failed(error);
        }
    }
}

impl Inner {
    /// A try was answered.
    pub(super) fn tell_connected(&mut self, told: Option<TryId>) {
        if let Some(one) = told.and_then(|told| self.stories.find_try(told)) {
            one.state = TryState::Open;
        }
    }

    /// A try has ended, as a connection or before it was one.
    pub(super) fn tell_end(
        &mut self,
        told: Option<TryId>,
        moved: [ByteCount; 2],
        lasted: Duration,
    ) {
        let Some(one) = told.and_then(|told| self.stories.find_try(told)) else {
            return;
        };
        (one.moved, one.lasted) = (moved, lasted);
        one.state = match one.state {
            TryState::Open => TryState::Ended,
            TryState::Waiting => TryState::GivenUp,
            other => other,
        };
    }

    /// Enters how far the open connections have come.
    fn bring_up_to_date(&mut self, now: Instant) {
        for entry in self.flows.values() {
            let Some(one) = entry.told.and_then(|told| self.stories.find_try(told)) else {
                continue;
            };
            one.moved = entry.moved.read();
            one.lasted = now.since(entry.connected.unwrap_or(entry.begun));
        }
    }
}

#[cfg(test)]
mod tests;
