//! The flight recorder: every decision with its reason and with the facts that the policy had, in
//! bounded memory.
//!
//! It keeps two things. The `Ring` holds the latest decisions in full, so that they can be
//! replayed. Counts by stream and link cover the whole session, for [`Recorder::summary`].

mod block;
mod bytes;
mod entry;
mod link_states;
mod note;
mod recording;
mod ring;
mod summary;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkUnit, Decision};
use hawser_sched::governor::Standing;
use hawser_sched::tally::{Asked, Placed, Tallies};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::ChannelRole;

use crate::association::PathSample;
use crate::by_role::slot;
use crate::channel::Channel;
pub use entry::{Entry, Recorded};
pub use hawser_sched::tally::Verdict;
use link_states::LinkStates;
pub use note::Note;
pub use recording::{Head, Recording, RecordingError};
use ring::Ring;
pub use summary::{LinkSummary, Summary};

/// Records the decisions of a session and their reasons.
///
/// Memory is allocated when it is needed, up to the limit. Then new decisions replace the oldest. A
/// decision needs no allocation once the channels are known.
#[derive(Debug)]
pub struct Recorder {
    on: bool,
    began: Instant,
    ring: Ring,
    /// Rare notes, kept apart so that decisions do not replace them.
    notes: VecDeque<(Instant, Note)>,
    tallies: Tallies,
    links: LinkStates,
    /// Time of the last recorded sample of each channel.
    sampled: Vec<(ChannelId, Instant)>,
}

impl Recorder {
    /// Creates a recorder that uses about `memory` at most; with zero it records nothing.
    pub fn new(now: Instant, memory: ByteCount) -> Self {
        let memory = memory.as_usize();
        Self {
            on: memory > 0,
            began: now,
            ring: Ring::new(memory - memory / TALLIES),
            notes: VecDeque::new(),
            tallies: Tallies::new(memory / TALLIES),
            links: LinkStates::default(),
            sampled: Vec::new(),
        }
    }

    /// True if anything is recorded.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Returns the memory in use.
    pub fn held(&self) -> ByteCount {
        let notes = self.notes.capacity() * size_of::<(Instant, Note)>();
        ByteCount::from(self.ring.held() + self.tallies.held() + notes)
    }

    /// The decisions and notes that are still there, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.ring.blocks().flat_map(block::Block::new)
    }

    /// Records a decision and the views that it was based on.
    pub fn on_decision(
        &mut self,
        now: Instant,
        (role, stream): (ChannelRole, StreamId),
        unit: ChunkUnit,
        views: &[PathView],
        decision: Decision,
    ) {
        if !self.on {
            return;
        }
        let taken = entry::Taken {
            now,
            role,
            stream,
            unit,
            views,
            decision,
        };
        if !is_association(views, decision) {
            let asked = Asked {
                now,
                lane: slot(role),
                stream,
                unit,
                views,
                decision,
            };
            let links = &self.links;
            self.tallies
                .on_decision(&asked, |link, preferred| links.verdict(link, preferred));
        }
        self.ring
            .push(|context, out| context.put_decision(out, taken));
    }

    /// Counts bytes of a chunk that were given to a TCP channel. `copy`: another channel has them
    /// already. Those given to an association count when it reports them.
    pub(crate) fn on_given(&mut self, stream: StreamId, to: &Channel, bytes: usize, copy: bool) {
        if self.on && !to.is_association() {
            let link = to.link();
            self.tallies.on_given(stream, link, bytes as u64, copy);
        }
    }

    /// Takes note of the paths of an association, one of each link, and of what it has placed on
    /// them since its last report.
    pub(crate) fn on_association(&mut self, paths: &[PathSample], placed: &[Placed]) {
        if !self.on {
            return;
        }
        self.links.set_paths(paths);
        for path in paths.iter().filter(|path| path.is_active) {
            self.tallies.add_link(path.link);
        }
        for placed in placed {
            let mut placed = *placed;
            placed.tally.associated = placed.tally.bytes;
            self.tallies.add(&placed);
        }
    }

    /// Records an event that is no decision.
    pub fn note(&mut self, now: Instant, note: Note) {
        if !self.on {
            return;
        }
        match note {
            // An association is on no link; its paths are.
            Note::Added { link, .. } if link != LinkIndex::ALL => {
                self.tallies.add_link(link);
                self.links.on_added(link);
            }
            Note::Suspect { link, .. } => self.links.on_suspect(link, true),
            Note::Recovered { link, .. } => self.links.on_suspect(link, false),
            _ => {}
        }
        self.keep(now, note);
    }

    fn keep(&mut self, now: Instant, note: Note) {
        if !self.on {
            return;
        }
        if note.is_rare() {
            if self.notes.len() >= MAX_NOTES {
                self.notes.pop_front();
            }
            self.notes.push_back((now, note));
        }
        self.ring
            .push(|context, out| context.put_note(out, now, note));
    }

    /// Records a new channel.
    pub(crate) fn on_added(&mut self, now: Instant, channel: &Channel) {
        self.note(now, added(channel));
    }

    /// Records that the link of a channel has become known. It takes over the counts of `unknown`.
    pub(crate) fn on_link_known(&mut self, now: Instant, channel: &Channel, unknown: LinkIndex) {
        let link = channel.link();
        self.links.on_lost(unknown, false);
        if self.links.rename(unknown, link) {
            self.tallies.rename(unknown, link);
        } else {
            self.tallies.add_link(link);
            self.links.on_added(link);
        }
        self.keep(now, added(channel));
    }

    /// Records the permission of the user and the governor for a link, if it has changed.
    pub(crate) fn on_standing(&mut self, now: Instant, link: LinkIndex, standing: Standing) {
        if self.on && self.links.on_standing(link, standing) {
            self.keep(now, Note::Standing { link, standing });
        }
    }

    /// Records the end of a channel.
    pub(crate) fn on_lost(&mut self, now: Instant, channel: &Channel) {
        let suspect = channel.is_suspect();
        if channel.is_association() {
            self.links.set_paths(&[]);
        } else {
            self.links.on_lost(channel.link(), suspect);
        }
        self.sampled.retain(|(id, _)| *id != channel.id());
        self.note(
            now,
            Note::Lost {
                channel: channel.id(),
                link: channel.link(),
                chunks: chunks(channel),
                silence: channel.path().silence().current(now),
            },
        );
    }

    /// Records that a channel is suspect.
    pub(crate) fn on_suspect(&mut self, now: Instant, channel: &Channel) {
        self.note(
            now,
            Note::Suspect {
                channel: channel.id(),
                link: channel.link(),
                chunks: chunks(channel),
                silence: channel.path().silence().current(now),
            },
        );
    }

    /// Records the reinjection of this many chunks of a stalled channel.
    pub(crate) fn on_stalled(&mut self, now: Instant, channel: &Channel, chunks: u64) {
        if !self.on {
            return;
        }
        let id = channel.id();
        let note = Note::Stalled {
            channel: id,
            link: channel.link(),
            chunks,
        };
        // Reinjections come in bursts, which share one note.
        if let Some((
            at,
            Note::Stalled {
                channel,
                chunks: sum,
                ..
            },
        )) = self.notes.back_mut()
            && *channel == id
            && now.since(*at) < BURST
        {
            *sum += chunks;
            self.ring
                .push(|context, out| context.put_note(out, now, note));
            return;
        }
        self.keep(now, note);
    }

    /// Records the kernel's figures of a channel.
    pub(crate) fn on_sample(&mut self, now: Instant, channel: &Channel) {
        if !self.on {
            return;
        }
        let id = channel.id();
        let known = self.sampled.iter_mut().find(|(known, _)| *known == id);
        match known {
            Some((_, at)) if now.since(*at) < SAMPLE_EACH => return,
            Some((_, at)) => *at = now,
            None => self.sampled.push((id, now)),
        }
        let kernel = channel.path().latest();
        self.note(
            now,
            Note::Sample {
                channel: id,
                link: channel.link(),
                rate: channel.path().rate(),
                rtt: channel.path().rtt(),
                min_rtt: channel.path().min_rtt().unwrap_or_default(),
                retransmissions: kernel.retransmissions,
                delivered: kernel.delivered.unwrap_or_default(),
                unacknowledged: kernel.unacknowledged,
                lost_ppm: (channel.path().loss().random() * 1e6) as u64,
            },
        );
    }
}

/// True if an association gets the chunk: it chooses the links itself, packet by packet.
fn is_association(views: &[PathView], decision: Decision) -> bool {
    let chosen = match decision {
        Decision::Channel(id, _) | Decision::Duplicate([id, _], _) => id,
        Decision::Wait(..) => return views.iter().all(|view| view.link == LinkIndex::ALL),
    };
    let mut views = views.iter();
    views.any(|view| view.channel == chosen && view.link == LinkIndex::ALL)
}

fn added(channel: &Channel) -> Note {
    Note::Added {
        channel: channel.id(),
        link: channel.link(),
        role: channel.role(),
    }
}

/// Returns the number of chunks of a channel that the peer has not acknowledged.
fn chunks(channel: &Channel) -> u64 {
    channel.outbound().chunk_count() as u64
}

/// Fraction of the memory (1/8) that is for counts.
const TALLIES: usize = 8;
const MAX_NOTES: usize = 128;
const SAMPLE_EACH: Duration = Duration::from_millis(200);
const BURST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
