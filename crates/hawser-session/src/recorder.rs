//! The flight recorder: every decision with its reason and all that the policy knew, in bounded
//! memory.
//!
//! Two things are kept. The `Ring` has the latest decisions whole, so that they can be replayed;
//! counts by stream and link reach back to the beginning, for [`Recorder::summary`].

mod block;
mod bytes;
mod entry;
mod note;
mod recording;
mod ring;
mod summary;
mod tally;
mod view;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkUnit, Decision};
use hawser_sched::governor::Standing;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::ChannelRole;

use crate::channel::Channel;
pub use entry::{Entry, Recorded};
pub use note::Note;
pub use recording::{Head, Recording, RecordingError};
use ring::Ring;
pub use summary::{LinkSummary, Summary};
use tally::Tallies;
pub use tally::Verdict;

/// Keeps what a session decided, and why.
///
/// Memory is taken when it is needed, up to what was allowed; then the oldest decisions make room.
/// A decision costs no allocation once the channels are known.
#[derive(Debug)]
pub struct Recorder {
    on: bool,
    began: Instant,
    ring: Ring,
    /// What is rare, apart: many decisions shall not push it out.
    notes: VecDeque<(Instant, Note)>,
    tallies: Tallies,
    /// Counts decisions, since arrivals are reckoned for a part of them.
    decisions: u64,
    /// When each channel's last sample was kept.
    sampled: Vec<(ChannelId, Instant)>,
}

impl Recorder {
    /// Keeps at most about `memory`; nothing when that is zero.
    pub fn new(now: Instant, memory: ByteCount) -> Self {
        let memory = memory.as_usize();
        Self {
            on: memory > 0,
            began: now,
            ring: Ring::new(memory - memory / TALLIES),
            notes: VecDeque::new(),
            tallies: Tallies::new(memory / TALLIES),
            decisions: 0,
            sampled: Vec::new(),
        }
    }

    /// Whether anything is kept.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// The memory that it has taken.
    pub fn held(&self) -> ByteCount {
        let notes = self.notes.capacity() * size_of::<(Instant, Note)>();
        ByteCount::from(self.ring.held() + self.tallies.held() + notes)
    }

    /// The decisions and notes that are still there, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.ring.blocks().flat_map(block::Block::new)
    }

    /// Keeps a decision, as it was taken over these views.
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
        self.decisions += 1;
        let sample = self.decisions.is_multiple_of(ARRIVALS_EACH);
        self.tallies.on_decision(&taken, sample);
        self.ring
            .push(|context, out| context.put_decision(out, taken));
    }

    /// Counts a chunk's bytes that were given to a channel; `copy` when another one has them
    /// already.
    pub(crate) fn on_given(&mut self, stream: StreamId, to: &Channel, bytes: usize, copy: bool) {
        if self.on {
            let link = to.link();
            self.tallies.on_given(stream, link, bytes as u64, copy);
        }
    }

    /// Keeps what happened beside decisions.
    pub fn note(&mut self, now: Instant, note: Note) {
        if !self.on {
            return;
        }
        match note {
            Note::Added { link, .. } => self.tallies.on_added(link),
            Note::Suspect { link, .. } => self.tallies.on_suspect(link, true),
            Note::Recovered { link, .. } => self.tallies.on_suspect(link, false),
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

    /// Keeps that a channel came.
    pub(crate) fn on_added(&mut self, now: Instant, channel: &Channel) {
        self.note(now, added(channel));
    }

    /// Keeps that the link below a channel has become known. The counts of `unknown` are its.
    pub(crate) fn on_link_known(&mut self, now: Instant, channel: &Channel, unknown: LinkIndex) {
        let link = channel.link();
        self.tallies.on_lost(unknown, false);
        if !self.tallies.rename(unknown, link) {
            self.tallies.on_added(link);
        }
        self.keep(now, added(channel));
    }

    /// What the user and the governor allow a link, if that has changed.
    pub(crate) fn on_standing(&mut self, now: Instant, link: LinkIndex, standing: Standing) {
        if self.on && self.tallies.on_standing(link, standing) {
            self.keep(now, Note::Standing { link, standing });
        }
    }

    /// A channel is gone.
    pub(crate) fn on_lost(&mut self, now: Instant, channel: &Channel) {
        let suspect = channel.is_suspect();
        self.tallies.on_lost(channel.link(), suspect);
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

    /// A channel fell silent.
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

    /// So many chunks of a channel that has stalled go again.
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
        // Reinjections come in bursts: one note tells of all of them.
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

    /// The kernel has said how a channel stands.
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

fn added(channel: &Channel) -> Note {
    Note::Added {
        channel: channel.id(),
        link: channel.link(),
        role: channel.role(),
    }
}

/// Returns the number of chunks that a channel was given and that the peer has not acknowledged.
fn chunks(channel: &Channel) -> u64 {
    channel.outbound().chunk_count() as u64
}

/// One part in so many of the memory is for counts.
const TALLIES: usize = 8;
/// Arrivals are reckoned for one decision in so many; reckoning them costs more than the rest.
const ARRIVALS_EACH: u64 = 16;
const MAX_NOTES: usize = 128;
const SAMPLE_EACH: Duration = Duration::from_millis(200);
const BURST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
