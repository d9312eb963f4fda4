//! Counts of decisions for each stream and link: what was placed where, and for what reasons.
//!
//! A session counts its decisions on channels so, and an association those on paths. A tunnel has
//! counts of its own for each flow of packets ([`FlowTally`]).

mod counts;
mod flow;
#[cfg(test)]
mod tests;
mod verdict;

use std::time::Duration;

use hawser_types::{ChannelId, Instant, LinkIndex, StreamId};

use crate::PathView;
use crate::chunk::{ChunkUnit, Decision, Reason};
pub use counts::{LinkTally, MAX_LINKS, StreamTally};
pub use flow::{FlowTally, LinkOfFlow};
pub use verdict::Verdict;

/// The counts of all streams.
///
/// Memory is bounded: when there are too many streams, those unused for longest are added up.
/// Links beyond the first [`MAX_LINKS`] are not counted.
#[derive(Debug)]
pub struct Tallies {
    streams: Vec<StreamTally>,
    most: usize,
    /// Index of the stream that was used last.
    latest: usize,
    uses: u64,
    /// Counts of all streams that were dropped; none before the first.
    rest: Option<Box<StreamTally>>,
    links: Vec<LinkIndex>,
    held: [Option<Held>; 2],
    /// Number of decisions. Arrivals are calculated for some of them only.
    decisions: u64,
}

/// A decision, and what the policy was asked.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Time of the decision.
    pub now: Instant,
    /// Which of two policies was asked, 0 or 1: each waits by itself.
    pub lane: usize,
    /// Stream of the chunk.
    pub stream: StreamId,
    /// The unit that was placed.
    pub unit: ChunkUnit,
    /// Paths that the policy chose from.
    pub views: &'a [PathView],
    /// The decision.
    pub decision: Decision,
}

/// Counts of one stream on one link, taken from [`Tallies::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The stream; `None` for several streams together.
    pub stream: Option<StreamId>,
    /// The link, as the views named it.
    pub link: LinkIndex,
    /// The counts.
    pub tally: LinkTally,
}

/// A period in which nothing is sent although links are ready.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    since: Instant,
    stream: StreamId,
    reason: Reason,
    /// A bit for each link that is ready.
    links: u32,
}

impl Tallies {
    /// Creates counts of as many streams as fit `bytes`, from 4 to 64.
    pub fn new(bytes: usize) -> Self {
        Self {
            streams: Vec::new(),
            most: (bytes / size_of::<StreamTally>()).clamp(4, 64),
            latest: 0,
            uses: 0,
            rest: None,
            links: Vec::new(),
            held: [None; 2],
            decisions: 0,
        }
    }

    /// Counts a link from now on, if there is room for another one.
    pub fn add_link(&mut self, link: LinkIndex) {
        if self.slot(link).is_none() && self.links.len() < MAX_LINKS {
            self.links.push(link);
        }
    }

    /// Moves the counts of `old` to `new`: they have turned out to be the same link.
    pub fn rename(&mut self, old: LinkIndex, new: LinkIndex) {
        let Some(from) = self.slot(old).filter(|_| old != new) else {
            return;
        };
        match self.slot(new) {
            None => self.links[from] = new,
            Some(to) => self.fold(from, to),
        }
    }

    fn fold(&mut self, from: usize, to: usize) {
        let rest = self.rest.as_deref_mut();
        for tally in self.streams.iter_mut().chain(rest) {
            let moved = std::mem::take(&mut tally.links[from]);
            tally.links[to].add(&moved);
            tally.links[from..].rotate_left(1);
        }
        self.links.remove(from);
        self.held = [None; 2];
    }

    /// Counts a decision. `absent`: the verdict on a link that is not among the views; it is told
    /// whether the user prefers the link that was chosen.
    pub fn on_decision(
        &mut self,
        asked: &Asked<'_>,
        absent: impl Fn(LinkIndex, bool) -> Option<Verdict>,
    ) {
        self.settle(asked);
        self.decisions += 1;
        let (chosen, reason) = match asked.decision {
            Decision::Channel(id, reason) => ([id, id], reason),
            Decision::Duplicate(ids, reason) => (ids, reason),
            Decision::Wait(..) => return,
        };
        let best = asked.views.iter().find(|view| view.channel == chosen[0]);
        let Some(best) = best else { return };
        let mut verdicts = self.judge(asked.views, best, chosen, reason);
        for (verdict, link) in verdicts.iter_mut().zip(&self.links) {
            if verdict.is_none() {
                *verdict = absent(*link, best.preferred);
            }
        }
        let best_slot = self.slot(best.link);
        let later = if self.decisions.is_multiple_of(ARRIVALS_EACH) {
            self.arrivals(asked, best, &verdicts)
        } else {
            [None; MAX_LINKS]
        };
        let tally = self.stream(asked.stream);
        for ((link, verdict), later) in tally.links.iter_mut().zip(verdicts).zip(later) {
            if let Some(verdict) = verdict {
                link.on_verdict(verdict);
            }
            if let Some((here, there)) = later {
                link.on_later(nanos(here), nanos(there));
            }
        }
        if let Some(slot) = best_slot {
            tally.links[slot].on_chosen(reason);
        }
    }

    /// Returns the meaning of a decision for `best` for each link among the views.
    fn judge(
        &self,
        views: &[PathView],
        best: &PathView,
        chosen: [ChannelId; 2],
        reason: Reason,
    ) -> [Option<Verdict>; MAX_LINKS] {
        let mut verdicts = [None; MAX_LINKS];
        for (place, view) in views.iter().enumerate() {
            let slot = match self.links.get(place) {
                Some(known) if *known == view.link => Some(place),
                _ => self.slot(view.link),
            };
            let Some(slot) = slot else {
                continue;
            };
            let verdict = Verdict::of(view, best, chosen, reason);
            // Of all channels of a link, the one nearest to being chosen counts.
            verdicts[slot] = Some(verdicts[slot].map_or(verdict, |old: Verdict| old.min(verdict)));
        }
        verdicts
    }

    /// Returns for each link over which the chunk would have been later its delay over that link,
    /// and its delay over `best`.
    fn arrivals(
        &self,
        asked: &Asked<'_>,
        best: &PathView,
        verdicts: &[Option<Verdict>; MAX_LINKS],
    ) -> [Option<(Duration, Duration)>; MAX_LINKS] {
        let mut later = [None; MAX_LINKS];
        let there = best.arrival(asked.unit.size.min(best.chunk));
        for view in asked.views {
            if let Some(slot) = self.slot(view.link)
                && verdicts[slot] == Some(Verdict::Later)
            {
                later[slot] = Some((view.arrival(asked.unit.size.min(view.chunk)), there));
            }
        }
        later
    }

    /// Counts bytes of a stream that were given to a link. `copy`: another link has them already.
    pub fn on_given(&mut self, stream: StreamId, link: LinkIndex, bytes: u64, copy: bool) {
        if let Some(slot) = self.slot(link) {
            let tally = &mut self.stream(stream).links[slot];
            if copy {
                tally.copied += bytes;
            } else {
                tally.bytes += bytes;
            }
        }
    }

    /// Adds counts that were made elsewhere. A link that is not known is counted from now on.
    pub fn add(&mut self, placed: &Placed) {
        self.add_link(placed.link);
        let Some(slot) = self.slot(placed.link) else {
            return;
        };
        let tally = match placed.stream {
            Some(stream) => self.stream(stream),
            None => self.rest.get_or_insert_default(),
        };
        tally.links[slot].add(&placed.tally);
    }

    /// Takes the counts of all streams on all links: they begin at zero again.
    pub fn take(&mut self) -> Vec<Placed> {
        let mut taken = Vec::new();
        let links = &self.links;
        let mut put = |stream, tally: &StreamTally| {
            let tallies = links.iter().zip(tally.links());
            let some = tallies.filter(|(_, tally)| **tally != LinkTally::default());
            taken.extend(some.map(|(link, tally)| Placed {
                stream,
                link: *link,
                tally: *tally,
            }));
        };
        for tally in &self.streams {
            put(Some(tally.stream), tally);
        }
        if let Some(rest) = self.rest.take() {
            put(None, &rest);
        }
        self.streams.clear();
        if self.links.len() == MAX_LINKS {
            // Some of them may be gone for good.
            self.links.clear();
            self.held = [None; 2];
        }
        taken
    }

    /// Returns the links, in the order of their counts in a tally.
    pub fn links(&self) -> &[LinkIndex] {
        &self.links
    }

    /// Returns the streams that are counted separately.
    pub fn streams(&self) -> &[StreamTally] {
        &self.streams
    }

    /// Returns the counts of all others together.
    pub fn rest(&self) -> Option<&StreamTally> {
        self.rest.as_deref()
    }

    /// Returns the memory in use.
    pub fn held(&self) -> usize {
        (self.streams.capacity() + 1) * size_of::<StreamTally>()
    }

    /// Counts the time for which links were ready and nothing was sent.
    fn settle(&mut self, asked: &Asked<'_>) {
        let now = match asked.decision {
            Decision::Wait(_, reason) => {
                let ready = asked.views.iter().filter(|view| view.ready);
                let slots = ready.filter_map(|view| self.slot(view.link));
                Some((reason, slots.fold(0, |bits, slot| bits | (1 << slot))))
            }
            _ => None,
        };
        let lane = asked.lane % self.held.len();
        if let Some(held) = self.held[lane] {
            if now == Some((held.reason, held.links)) && held.stream == asked.stream {
                return;
            }
            let span = nanos(asked.now.since(held.since).min(LONGEST_WAIT));
            let tally = self.stream(held.stream);
            for (slot, link) in tally.links.iter_mut().enumerate() {
                if held.links & (1 << slot) != 0 {
                    link.on_held(held.reason, span);
                }
            }
        }
        self.held[lane] = now.map(|(reason, links)| Held {
            since: asked.now,
            stream: asked.stream,
            reason,
            links,
        });
    }

    fn slot(&self, link: LinkIndex) -> Option<usize> {
        self.links.iter().position(|known| *known == link)
    }

    /// Returns the tally of a stream. A new one replaces the least recently used.
    fn stream(&mut self, id: StreamId) -> &mut StreamTally {
        self.uses += 1;
        let known = match self.streams.get(self.latest) {
            Some(tally) if tally.stream == id => Some(self.latest),
            _ => self.streams.iter().position(|tally| tally.stream == id),
        };
        self.latest = known.unwrap_or_else(|| self.make_room());
        let tally = &mut self.streams[self.latest];
        tally.stream = id;
        tally.used = self.uses;
        tally
    }

    fn make_room(&mut self) -> usize {
        if self.streams.len() < self.most {
            self.streams.push(StreamTally::default());
            return self.streams.len() - 1;
        }
        let streams = self.streams.iter().enumerate();
        let oldest = streams.min_by_key(|(_, tally)| tally.used);
        let oldest = oldest.map_or(0, |(place, _)| place);
        let gone = std::mem::take(&mut self.streams[oldest]);
        self.rest.get_or_insert_default().add(&gone);
        oldest
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// Number of decisions of which one has its arrivals calculated: that costs more than the rest.
const ARRIVALS_EACH: u64 = 16;
/// Maximum time counted for one wait. While a stream has data, its next decision comes sooner.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
