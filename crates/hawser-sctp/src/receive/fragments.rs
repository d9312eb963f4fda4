use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::message::{End, MessageHeader, Received, charge};
use crate::error::Misbehaviour;

/// Parts of incomplete messages.
///
/// Adjacent parts of one message form a run, found by its first position. So a part that follows
/// another, as nearly all do, costs a search among the holes and not among the parts.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    runs: BTreeMap<FragmentKey, Run>,
    /// Positions where messages continue whose beginning has been delivered.
    begun: BTreeMap<FragmentKey, MessageHeader>,
}

/// Position of a part: parts of a message are adjacent in one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FragmentKey {
    /// With I-DATA, the stream and the ordering; else 0.
    pub(super) lane: u32,
    /// With I-DATA, the numbers of the message and of the part; else the TSN.
    pub(super) position: u64,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) head: MessageHeader,
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) payload: Bytes,
}

/// Adjacent parts of one message, at least one. A run of one part allocates memory for one.
type Run = VecDeque<Part>;

/// The runs that a part joins, by their first positions.
#[derive(Debug, Default)]
struct Neighbours {
    before: Option<FragmentKey>,
    after: Option<FragmentKey>,
}

/// Parts that were dropped.
#[derive(Debug, Default)]
pub(super) struct Dropped {
    /// Their buffer charge.
    pub(super) charge: usize,
    /// Messages delivered in part.
    pub(super) begun: Vec<MessageHeader>,
}

impl Fragments {
    /// Adds a part; returns the message that it completes. `early`: an incomplete beginning is
    /// returned as well.
    pub(super) fn insert(
        &mut self,
        key: FragmentKey,
        part: Part,
        early: bool,
    ) -> Result<Option<Received>, Misbehaviour> {
        let Neighbours { before, after } = self.neighbours(key, &part)?;
        let start = before.unwrap_or(key);
        let after = after.and_then(|after| self.runs.remove(&after));
        let run = self
            .runs
            .entry(start)
            .or_insert_with(|| Run::with_capacity(1));
        run.push_back(part);
        if let Some(after) = after {
            join(run, after);
        }
        let first = run.front().is_some_and(|it| it.first);
        let is_whole = run.back().is_some_and(|it| it.last);
        if (is_whole || early) && (first || self.begun.contains_key(&start)) {
            return Ok(self.deliver(start));
        }
        Ok(None)
    }

    /// Returns the number of messages delivered in part.
    pub(super) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Drops messages that miss a part at or before this position, since nothing before it will
    /// arrive any more.
    pub(super) fn drop_incomplete(&mut self, lane: u32, through: u64) -> Dropped {
        let mut dropped = Dropped::default();
        let from = FragmentKey { lane, position: 0 };
        let mut next = from;
        // A run right after it may lack its beginning.
        let last = from.at(through.saturating_add(1));
        while next <= last
            && let Some((&start, run)) = self.runs.range(next..=last).next()
        {
            let end = start.position + (run.len() as u64 - 1);
            if !self.begins(start) || end < through {
                self.drop_runs(start, end, &mut dropped);
            }
            next = start.at(end + 1);
        }
        // Messages delivered in part whose next part is missing.
        let begun = self.begun.range(from..=from.at(through));
        let missing = begun.filter(|(key, _)| !self.runs.contains_key(key));
        let keys: Vec<_> = missing.map(|(key, _)| *key).collect();
        let heads = keys.iter().filter_map(|key| self.begun.remove(key));
        dropped.begun.extend(heads);
        dropped
    }

    /// Drops everything between two positions of a lane, both included.
    pub(super) fn drop_all(&mut self, lane: u32, first: u64, last: u64, dropped: &mut Dropped) {
        let start = FragmentKey {
            lane,
            position: first,
        };
        self.drop_runs(start, last, dropped);
        let begun: Vec<_> = self.begun.range(start..=start.at(last)).collect();
        let keys: Vec<_> = begun.into_iter().map(|(key, _)| *key).collect();
        let heads = keys.iter().filter_map(|key| self.begun.remove(key));
        dropped.begun.extend(heads);
    }

    /// Finds the runs that the part joins.
    fn neighbours(&self, key: FragmentKey, part: &Part) -> Result<Neighbours, Misbehaviour> {
        let is_begun = self.begun.contains_key(&key);
        if is_begun && part.first {
            return Err(Misbehaviour::BrokenMessage);
        }
        let mut joined = Neighbours::default();
        let next = key.position.checked_add(1).map(|next| key.at(next));
        let mut near = self.runs.range(key.at(0)..=next.unwrap_or(key));
        let mut last = near.next_back();
        if let Some((&start, run)) = last
            && Some(start) == next
        {
            let begins = self.begins(start);
            if are_joined(part, run.front(), begins)? {
                joined.after = Some(start);
            }
            last = near.next_back();
        }
        if let Some((&start, run)) = last {
            let end = start.position + (run.len() as u64 - 1);
            if end >= key.position {
                return Err(Misbehaviour::BrokenMessage);
            }
            if end + 1 == key.position
                && let Some(neighbour) = run.back()
                && are_joined(neighbour, Some(part), part.first || is_begun)?
            {
                joined.before = Some(start);
            }
        }
        Ok(joined)
    }

    /// Tells whether the run starts a message, or continues one delivered in part.
    fn begins(&self, key: FragmentKey) -> bool {
        let run = self.runs.get(&key);
        let first = run.and_then(VecDeque::front).is_some_and(|it| it.first);
        first || self.begun.contains_key(&key)
    }

    /// Assembles a message from a run that starts or continues one.
    fn deliver(&mut self, start: FragmentKey) -> Option<Received> {
        let run = self.runs.remove(&start)?;
        let head = self
            .begun
            .remove(&start)
            .or(run.front().map(|it| it.head))?;
        let end = start.position + (run.len() as u64 - 1);
        let mut received = Received::of(head);
        received.reserve(run.len());
        let mut is_whole = false;
        for part in run {
            is_whole = part.last;
            received.push(part.payload);
        }
        if !is_whole {
            received.end = End::More;
            self.begun.insert(start.at(end.wrapping_add(1)), head);
        }
        Some(received)
    }

    /// Drops the runs that begin between two positions, both included.
    fn drop_runs(&mut self, start: FragmentKey, end: u64, dropped: &mut Dropped) {
        let range = self.runs.range(start..=start.at(end));
        let keys: Vec<_> = range.map(|(key, _)| *key).collect();
        for key in keys {
            for part in self.runs.remove(&key).into_iter().flatten() {
                dropped.charge += charge(&part.payload);
            }
        }
    }
}

/// Tells whether two adjacent parts belong to one message. `begins`: a message starts at the second
/// part, or continues there after a delivered beginning.
fn are_joined(part: &Part, next: Option<&Part>, begins: bool) -> Result<bool, Misbehaviour> {
    let is_joined = !part.last && !begins;
    let fits = !is_joined || next.is_some_and(|next| part.head.is_same_message(&next.head));
    if fits && part.last == begins {
        Ok(is_joined)
    } else {
        Err(Misbehaviour::BrokenMessage)
    }
}

/// Joins two runs. The shorter one moves, so that no order of arrival is costly.
fn join(run: &mut Run, mut after: Run) {
    if run.len() >= after.len() {
        run.append(&mut after);
    } else {
        while let Some(part) = run.pop_back() {
            after.push_front(part);
        }
        *run = after;
    }
}

impl FragmentKey {
    fn at(self, position: u64) -> Self {
        Self { position, ..self }
    }
}

impl MessageHeader {
    fn is_same_message(&self, other: &Self) -> bool {
        let number = self.unordered || self.number == other.number;
        number && self.stream == other.stream && self.unordered == other.unordered
    }
}
