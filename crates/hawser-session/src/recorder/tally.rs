//! Counts of decisions for each stream and link, from the beginning of the stream.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{Decision, Reason};
use hawser_sched::governor::Standing;
use hawser_types::{ChannelId, LinkIndex, StreamId};

use super::entry::Taken;
use super::note::nanos;
use crate::by_role::slot;

/// Meaning of one decision for one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// It got the chunk, or a copy.
    Carried,
    /// It was ready, and the chunk would have arrived later there.
    Later,
    /// It was ready, and another was chosen without a comparison of arrivals.
    Other,
    /// The user prefers the one that was chosen.
    LessPreferred,
    /// Its connection was full.
    Busy,
    /// The governor has demoted it.
    Demoted,
    /// The user's rules exclude it.
    Excluded,
    /// It was silent where an answer was due.
    Silent,
    /// It had no connection.
    Gone,
}

impl Verdict {
    /// Every verdict; `verdict as usize` is its index.
    pub const ALL: [Self; 9] = [
        Self::Carried,
        Self::Later,
        Self::Other,
        Self::LessPreferred,
        Self::Busy,
        Self::Demoted,
        Self::Excluded,
        Self::Silent,
        Self::Gone,
    ];

    /// Returns the name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Carried => "carried",
            Self::Later => "later",
            Self::Other => "other",
            Self::LessPreferred => "less-preferred",
            Self::Busy => "busy",
            Self::Demoted => "demoted",
            Self::Excluded => "excluded",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }

    /// Returns the text for people: why the link did not get a chunk.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Carried => "it carried the chunk",
            Self::Later => "the chunk would have arrived later over it",
            Self::Other => "another link that was ready was taken first",
            Self::LessPreferred => "the rules prefer the link that was ready",
            Self::Busy => "its connection was full: it was sending as fast as it could",
            Self::Demoted => "the governor had demoted it",
            Self::Excluded => "the rules excluded it",
            Self::Silent => "it was silent where an answer was due",
            Self::Gone => "it had no connection",
        }
    }
}

/// Counts of one stream.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamTally {
    pub(super) stream: StreamId,
    /// Number of its latest use, so that the least recently used can be dropped.
    used: u64,
    /// Counts of each known link, in the order in which links became known.
    pub(super) links: [LinkTally; MAX_LINKS],
}

/// Counts of one stream on one link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkTally {
    /// Payload given to it, without copies.
    pub(super) bytes: u64,
    /// Payload given to it that another link carried already.
    pub(super) copied: u64,
    /// Decisions that placed a chunk on any link, by their verdict on this one.
    pub(super) verdicts: [u32; Verdict::ALL.len()],
    /// Decisions that placed a chunk here, by their reason.
    pub(super) chosen: [u32; REASONS],
    /// Nanoseconds for which it was ready and nothing was sent, by reason.
    pub(super) held: [u64; REASONS],
    /// For some of the decisions that found it later: their number, and the sums of the delays in
    /// nanoseconds over this link and over the chosen one.
    pub(super) later: (u32, u64, u64),
}

/// A link that the session has, or had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkState {
    pub(super) link: LinkIndex,
    pub(super) channels: u32,
    pub(super) suspect: u32,
    standing: Standing,
}

/// The counts of all streams.
#[derive(Debug)]
pub(super) struct Tallies {
    streams: Vec<StreamTally>,
    most: usize,
    /// Index of the stream that was used last.
    latest: usize,
    uses: u64,
    /// Counts of all streams that were dropped.
    rest: Box<StreamTally>,
    links: Vec<LinkState>,
    held: [Option<Held>; 2],
}

/// A period in which nothing is sent although links are ready.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    since: hawser_types::Instant,
    stream: StreamId,
    reason: Reason,
    /// A bit for each link that is ready.
    links: u32,
}

impl Tallies {
    /// Creates counts of as many streams as fit `bytes`, at least four.
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            streams: Vec::new(),
            most: (bytes / size_of::<StreamTally>()).clamp(4, 64),
            latest: 0,
            uses: 0,
            rest: Box::default(),
            links: Vec::new(),
            held: [None; 2],
        }
    }

    /// Counts a new channel of this link.
    pub(super) fn on_added(&mut self, link: LinkIndex) {
        if let Some(state) = self.state(link) {
            state.channels += 1;
        } else if self.links.len() < MAX_LINKS {
            self.links.push(LinkState {
                link,
                channels: 1,
                suspect: 0,
                standing: Standing::Full,
            });
        }
    }

    /// Moves the counts of `old`, which has no channel left, to `new`, which has a channel more.
    /// Returns `false` if that is not the case.
    pub(super) fn rename(&mut self, old: LinkIndex, new: LinkIndex) -> bool {
        let is_free = |from: &usize| old != new && self.links[*from].channels == 0;
        let Some(from) = self.slot(old).filter(is_free) else {
            return false;
        };
        if let Some(to) = self.slot(new) {
            self.fold(from, to);
        } else {
            (self.links[from].link, self.links[from].channels) = (new, 1);
        }
        true
    }

    /// Adds the counts of the link at index `from` to those of the one at `to`: they have turned
    /// out to be the same link.
    fn fold(&mut self, from: usize, to: usize) {
        for tally in self.streams.iter_mut().chain([&mut *self.rest]) {
            let moved = std::mem::take(&mut tally.links[from]);
            tally.links[to].add(&moved);
            tally.links[from..].rotate_left(1);
        }
        self.links[to].channels += 1;
        self.links.remove(from);
        self.held = [None; 2];
    }

    /// Counts the end of a channel of this link.
    pub(super) fn on_lost(&mut self, link: LinkIndex, was_suspect: bool) {
        if let Some(state) = self.state(link) {
            state.channels = state.channels.saturating_sub(1);
            state.suspect = state.suspect.saturating_sub(u32::from(was_suspect));
        }
    }

    /// Notes the permission of a link. True if it has changed.
    pub(super) fn on_standing(&mut self, link: LinkIndex, standing: Standing) -> bool {
        let state = self.state(link);
        state.is_some_and(|state| std::mem::replace(&mut state.standing, standing) != standing)
    }

    /// Counts a channel of this link that became suspect, or has recovered.
    pub(super) fn on_suspect(&mut self, link: LinkIndex, suspect: bool) {
        if let Some(state) = self.state(link) {
            state.suspect = match suspect {
                true => state.suspect + 1,
                false => state.suspect.saturating_sub(1),
            };
        }
    }

    /// Counts a decision.
    pub(super) fn on_decision(&mut self, taken: &Taken<'_>, sample: bool) {
        self.settle(taken);
        let (chosen, reason) = match taken.decision {
            Decision::Channel(id, reason) => ([id, id], reason),
            Decision::Duplicate(ids, reason) => (ids, reason),
            Decision::Wait(..) => return,
        };
        let best = taken.views.iter().find(|view| view.channel == chosen[0]);
        let Some(best) = best else { return };
        let verdicts = self.judge(taken.views, best, chosen, reason);
        let best_slot = self.slot(best.link);
        let later = match sample {
            true => self.arrivals(taken, best, &verdicts),
            false => [None; MAX_LINKS],
        };
        let tally = self.stream(taken.stream);
        for ((link, verdict), later) in tally.links.iter_mut().zip(verdicts).zip(later) {
            if let Some(verdict) = verdict {
                link.verdicts[verdict as usize] += 1;
            }
            if let Some((here, there)) = later {
                link.later.0 += 1;
                link.later.1 = link.later.1.saturating_add(nanos(here));
                link.later.2 = link.later.2.saturating_add(nanos(there));
            }
        }
        let chosen = best_slot.and_then(|slot| tally.links[slot].chosen.get_mut(reason as usize));
        if let Some(count) = chosen {
            *count += 1;
        }
    }

    /// Returns the meaning of a decision for `best` for each link.
    fn judge(
        &self,
        views: &[PathView],
        best: &PathView,
        chosen: [ChannelId; 2],
        reason: Reason,
    ) -> [Option<Verdict>; MAX_LINKS] {
        let mut verdicts = [None; MAX_LINKS];
        for (place, view) in views.iter().enumerate() {
            let Some(slot) = self.slot_near(view.link, place) else {
                continue;
            };
            let verdict = verdict(view, best, chosen, reason);
            // Of all channels of a link, the one nearest to being chosen counts.
            verdicts[slot] = Some(verdicts[slot].map_or(verdict, |old: Verdict| old.min(verdict)));
        }
        for (verdict, state) in verdicts.iter_mut().zip(&self.links) {
            if verdict.is_none() {
                *verdict = state.verdict(best.preferred);
            }
        }
        verdicts
    }

    /// Returns for each link over which the chunk would have been later its delay over that link,
    /// and its delay over `best`.
    fn arrivals(
        &self,
        taken: &Taken<'_>,
        best: &PathView,
        verdicts: &[Option<Verdict>; MAX_LINKS],
    ) -> [Option<(Duration, Duration)>; MAX_LINKS] {
        let mut later = [None; MAX_LINKS];
        let there = best.arrival(taken.unit.size.min(best.chunk));
        for view in taken.views {
            if let Some(slot) = self.slot(view.link)
                && verdicts[slot] == Some(Verdict::Later)
            {
                later[slot] = Some((view.arrival(taken.unit.size.min(view.chunk)), there));
            }
        }
        later
    }

    /// Counts bytes of a stream that were given to a link. `copy`: another link has them already.
    pub(super) fn on_given(&mut self, stream: StreamId, link: LinkIndex, bytes: u64, copy: bool) {
        if let Some(slot) = self.slot(link) {
            let tally = &mut self.stream(stream).links[slot];
            match copy {
                true => tally.copied += bytes,
                false => tally.bytes += bytes,
            }
        }
    }

    /// Returns the links, in the order of their counts in a tally.
    pub(super) fn links(&self) -> &[LinkState] {
        &self.links
    }

    /// Returns the streams that are counted separately, and all others together.
    pub(super) fn streams(&self) -> (&[StreamTally], &StreamTally) {
        (&self.streams, &self.rest)
    }

    /// Returns the memory in use.
    pub(super) fn held(&self) -> usize {
        (self.streams.capacity() + 1) * size_of::<StreamTally>()
    }

    /// Counts the time for which links were ready and nothing was sent.
    fn settle(&mut self, taken: &Taken<'_>) {
        let role = slot(taken.role);
        let now = match taken.decision {
            Decision::Wait(_, reason) => {
                let ready = taken.views.iter().filter(|view| view.ready);
                let slots = ready.filter_map(|view| self.slot(view.link));
                Some((reason, slots.fold(0, |bits, slot| bits | (1 << slot))))
            }
            _ => None,
        };
        if let Some(held) = self.held[role] {
            if now == Some((held.reason, held.links)) && held.stream == taken.stream {
                return;
            }
            let span = nanos(taken.now.since(held.since).min(LONGEST_WAIT));
            let tally = self.stream(held.stream);
            for (slot, link) in tally.links.iter_mut().enumerate() {
                let time = link.held.get_mut(held.reason as usize);
                if let Some(time) = time.filter(|_| held.links & (1 << slot) != 0) {
                    *time = time.saturating_add(span);
                }
            }
        }
        self.held[role] = now.map(|(reason, links)| Held {
            since: taken.now,
            stream: taken.stream,
            reason,
            links,
        });
    }

    /// As [`Self::slot`]; looks at `guess` first.
    fn slot_near(&self, link: LinkIndex, guess: usize) -> Option<usize> {
        match self.links.get(guess) {
            Some(state) if state.link == link => Some(guess),
            _ => self.slot(link),
        }
    }

    fn slot(&self, link: LinkIndex) -> Option<usize> {
        self.links.iter().position(|state| state.link == link)
    }

    fn state(&mut self, link: LinkIndex) -> Option<&mut LinkState> {
        self.links.iter_mut().find(|state| state.link == link)
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
        let oldest = self.streams.iter().enumerate();
        let (oldest, _) = oldest
            .min_by_key(|(_, tally)| tally.used)
            .unwrap_or((0, &self.rest));
        let gone = std::mem::take(&mut self.streams[oldest]);
        self.rest.add(&gone);
        oldest
    }
}

impl LinkState {
    /// Returns the verdict on a link of which no channel was among the views.
    fn verdict(&self, preferred: bool) -> Option<Verdict> {
        match self.standing {
            _ if self.channels == 0 => Some(Verdict::Gone),
            Standing::Excluded(_) => Some(Verdict::Excluded),
            _ if self.suspect > 0 => Some(Verdict::Silent),
            _ => preferred.then_some(Verdict::LessPreferred),
        }
    }
}

impl StreamTally {
    /// Adds the counts of another stream.
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, link) in self.links.iter_mut().zip(&other.links) {
            sum.add(link);
        }
    }
}

impl LinkTally {
    /// Returns the number of decisions that placed a chunk while the link was known.
    pub(super) fn decisions(&self) -> u64 {
        self.verdicts.iter().map(|count| u64::from(*count)).sum()
    }

    /// Returns the mean delays over this link and over the chosen one, of chunks that would have
    /// been later over this one.
    pub(super) fn arrivals(&self) -> Option<(Duration, Duration)> {
        let (count, here, there) = self.later;
        let mean = |sum: u64| sum.checked_div(count.into()).map(Duration::from_nanos);
        mean(here).zip(mean(there))
    }

    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.copied += other.copied;
        for (sum, count) in self.verdicts.iter_mut().zip(other.verdicts) {
            *sum = sum.saturating_add(count);
        }
        for (sum, count) in self.chosen.iter_mut().zip(other.chosen) {
            *sum = sum.saturating_add(count);
        }
        for (sum, span) in self.held.iter_mut().zip(other.held) {
            *sum = sum.saturating_add(span);
        }
        self.later.0 = self.later.0.saturating_add(other.later.0);
        self.later.1 = self.later.1.saturating_add(other.later.1);
        self.later.2 = self.later.2.saturating_add(other.later.2);
    }
}

/// Returns the meaning of a decision for `best` for a channel.
fn verdict(view: &PathView, best: &PathView, chosen: [ChannelId; 2], reason: Reason) -> Verdict {
    if view.channel == chosen[0] || view.channel == chosen[1] {
        return Verdict::Carried;
    }
    match view.standing {
        _ if view.suspect => Verdict::Silent,
        Standing::Excluded(_) => Verdict::Excluded,
        Standing::Probing(_) => Verdict::Demoted,
        Standing::Full if !view.ready => Verdict::Busy,
        Standing::Full if best.preferred && !view.preferred => Verdict::LessPreferred,
        Standing::Full => match reason {
            Reason::Earliest | Reason::LeastRtt | Reason::Redundant => Verdict::Later,
            _ => Verdict::Other,
        },
    }
}

const REASONS: usize = Reason::ALL.len();
/// Maximum time counted for one wait. While a stream has data, its next decision comes sooner.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of links that are counted.
const MAX_LINKS: usize = 8;
