//! Chunks that are sent again over another link while theirs still lives.
//!
//! *Tail reinjection*: channels that have nothing left to send repeat what others are late with.
//! *Head reinjection*: chunks that hold up the head of a line go again when their channel has
//! stalled. What an association has in flight goes again over TCP when the network limits UDP.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::ChannelRole;
use smallvec::SmallVec;

use super::Session;
use crate::channel::{Channel, Sent, TIMEOUT_MARGIN};
use crate::recorder::Note;
use crate::unacknowledged::ChunkKey;

/// A chunk that an idle channel could repeat.
struct Repeat {
    chunk: ChunkKey,
    bytes: u64,
    /// Time by which it arrives sooner.
    gain: Duration,
    /// It should have come long ago: there is need of it, and it is not charged to the budget.
    needed: bool,
}

impl Session {
    /// Lets idle bulk channels repeat chunks of any channel that would arrive sooner that way: the
    /// last ones when a transfer ends, the first ones when credit holds everything up.
    ///
    /// Source: PATTHEL §III.B leaves the tail open; the idea is that of MPTCP's opportunistic
    /// retransmission (Raiciu et al., NSDI 2012).
    pub(super) fn help_the_tail(&mut self, now: Instant) {
        if self.unacknowledged.is_empty() {
            return;
        }
        // Whether credit holds anything up takes a look at all streams: once, and if it matters.
        let mut blocked = None;
        while let Some(helper) = self.scheduling.quickest_idle() {
            let Some(repeat) = self.chunk_to_repeat(now, helper, &mut blocked) else {
                self.scheduling.set_full(helper);
                continue;
            };
            let Repeat { chunk, bytes, .. } = repeat;
            if repeat.needed {
                self.counters.chunks_again += 1;
                self.counters.bytes_again += bytes;
            } else {
                self.duplicates.spend(bytes);
                self.counters.bytes_duplicated += bytes;
            }
            self.note_help(now, chunk, helper);
            self.assign(chunk, helper);
        }
    }

    /// Sends the first chunks again on a channel that has stalled, if their stream waits for them
    /// more than for any other's.
    ///
    /// The link may well live, so that the channel is not suspect: its TCP waits for a
    /// retransmission to time out, or the peer never took the channel up. Chunks of an express
    /// channel go over a bulk one: on a link with a short queue bulk crowds out the express
    /// channel's few segments, and its time-outs grow to seconds. Where a channel has not stalled,
    /// but is far slower than usual, they go from the budget for duplicates.
    pub(super) fn reinject_heads(&mut self, now: Instant) {
        let most = self.channels.carried_in(REINJECTION_SPAN);
        let most = most.min(MAX_REINJECTED);
        let (mut keys, mut early) = (SmallVec::<[ChunkKey; 8]>::new(), 0);
        for channel in self.channels.iter() {
            let has_stalled = channel.has_stalled(now);
            if !has_stalled && self.channels.slow_pace(now, channel).is_none() {
                continue;
            }
            let Some(front) = self.front(channel).filter(|front| self.is_head(front)) else {
                continue;
            };
            if (has_stalled && !is_needed(now, channel, front))
                || !self.goes_sooner(now, channel, front)
            {
                continue;
            }
            let (before, mut left) = (keys.len(), most);
            let behind = channel.outbound().sent();
            for sent in behind.filter(|sent| sent.end() >= front.end()) {
                let is_alone = self.unacknowledged.is_single(sent.chunk())
                    && !self
                        .unacknowledged
                        .waits_again(sent.chunk(), ChannelRole::Bulk);
                if is_alone && (has_stalled || self.duplicates.allows(early + sent.length())) {
                    keys.push(sent.chunk());
                    early += if has_stalled { 0 } else { sent.length() };
                }
                left = left.saturating_sub(sent.length());
                if left == 0 {
                    break;
                }
            }
            if keys.len() > before {
                let chunks = (keys.len() - before) as u64;
                self.recorder.on_stalled(now, channel, chunks);
            }
        }
        self.duplicates.spend(early);
        for key in keys {
            self.unacknowledged.send_again(key, ChannelRole::Bulk);
        }
    }

    /// Sends again over TCP what an association should have brought by now, while bulk goes over
    /// TCP because the network limits UDP.
    ///
    /// The association still brings something now and then, so that it neither stalls nor is
    /// silent. All that comes over TCP would wait for it: at 200 kbit/s, 100 kB take four seconds.
    pub(super) fn reinject_the_limited(&mut self, now: Instant) {
        let bulk = self
            .transports
            .association_for(now, ChannelRole::Bulk, &self.channels);
        let is_left = |it: &&Channel| Some(it.id()) != bulk && it.paths().is_policed(now);
        let mut keys = SmallVec::<[ChunkKey; 8]>::new();
        for channel in self.channels.iter().filter(is_left) {
            let patience = channel.repair_time();
            let sent = channel.outbound().sent();
            let late = sent.take_while(|sent| now.since(sent.at()) > patience);
            let chunks = late.map(Sent::chunk);
            keys.extend(chunks.filter(|chunk| self.unacknowledged.is_single(*chunk)));
        }
        for key in keys {
            self.unacknowledged.send_again(key, ChannelRole::Bulk);
        }
    }

    fn note_help(&mut self, now: Instant, key: ChunkKey, channel: ChannelId) {
        if let Some(chunk) = self.unacknowledged.get(key) {
            let note = Note::Helped {
                stream: chunk.stream(),
                channel,
                bytes: ByteCount::from(chunk.length()),
            };
            self.recorder.note(now, note);
        }
    }

    /// Returns the chunk in flight elsewhere that gains most if `helper` repeats it.
    fn chunk_to_repeat(
        &self,
        now: Instant,
        helper: ChannelId,
        blocked: &mut Option<bool>,
    ) -> Option<Repeat> {
        let helper = self.channels.get(helper)?;
        let view = helper.view(now, self.config.chunk_size);
        let mut best: Option<Repeat> = None;
        let others = self.channels.iter();
        for channel in others.filter(|other| other.link() != helper.link()) {
            let outbound = channel.outbound();
            let pending = |sent: &&Sent| {
                !outbound.has_arrived(sent) && self.unacknowledged.is_single(sent.chunk())
            };
            if outbound.sent().len() == 0 {
                continue;
            }
            let is_blocked = blocked.get_or_insert_with(|| self.streams.any_credit_blocked());
            let candidate = if *is_blocked {
                outbound.sent().find(pending)
            } else {
                outbound.sent().rev().find(pending)
            };
            let Some(candidate) = candidate else { continue };
            let here = view.arrival(ByteCount::new(candidate.length()));
            let there = self.expected_arrival(now, channel, candidate);
            let repeat = Repeat {
                chunk: candidate.chunk(),
                bytes: candidate.length(),
                gain: there.saturating_sub(here),
                needed: is_needed(now, channel, candidate),
            };
            let allowed = repeat.needed || self.duplicates.allows(repeat.bytes);
            let is_better = best.as_ref().is_none_or(|best| repeat.gain > best.gain);
            if repeat.gain > MIN_GAIN && allowed && is_better {
                best = Some(repeat);
            }
        }
        best
    }

    /// Returns the first chunk on a channel that the peer's kernel does not have.
    fn front<'a>(&self, channel: &'a Channel) -> Option<&'a Sent> {
        let outbound = channel.outbound();
        let mut sent = outbound.sent();
        sent.find(|sent| !outbound.has_arrived(sent) && self.unacknowledged.contains(sent.chunk()))
    }

    /// True if a chunk in front on its channel is the one that its stream waits for.
    fn is_head(&self, front: &Sent) -> bool {
        let stream = |sent: &Sent| {
            let chunk = self.unacknowledged.get(sent.chunk());
            chunk.map(|chunk| chunk.stream())
        };
        let own = stream(front);
        let segment = front.chunk().segment();
        let channels = self.channels.iter();
        let mut fronts = channels.filter_map(|channel| self.front(channel));
        fronts.all(|other| other.chunk().segment() >= segment || stream(other) != own)
    }

    /// Returns the time until a chunk in flight arrives. One that is overdue by a whole round trip
    /// is taken for lost, and counts as late by as much again.
    fn expected_arrival(&self, now: Instant, channel: &Channel, sent: &Sent) -> Duration {
        let path = channel.path();
        let ahead = channel.outbound().bytes_up_to(sent);
        let drain = match self.channels.slow_pace(now, channel) {
            Some(pace) => pace.time_for(ahead).map_or(NEVER, |time| time.min(NEVER)),
            None => path.rate().time_for(ahead).unwrap_or_default(),
        };
        let age = now.since(sent.at());
        drain.max((path.rtt() / 2).saturating_sub(age)) + overdue(now, channel, sent)
    }

    /// True if a chunk would be there sooner over a channel that moves.
    fn goes_sooner(&self, now: Instant, channel: &Channel, sent: &Sent) -> bool {
        let there = self.expected_arrival(now, channel, sent);
        let length = ByteCount::new(sent.length());
        let mut bulk = self.channels.iter();
        bulk.any(|other| {
            let arrival = || other.view(now, self.config.chunk_size).arrival(length);
            other.role() == ChannelRole::Bulk
                && other.link() != channel.link()
                && !other.is_suspect()
                && !other.has_stalled(now)
                && self.channels.slow_pace(now, other).is_none()
                && arrival() + MIN_GAIN < there
        })
    }
}

/// True if a chunk in flight is so late that TCP would have repaired a single loss by now. It is
/// sent again whatever the budget.
fn is_needed(now: Instant, channel: &Channel, sent: &Sent) -> bool {
    overdue(now, channel, sent) > TIMEOUT_MARGIN + channel.time_for(sent.length() * 2)
}

/// Returns the time by which a chunk has been in flight for longer than two round trips.
fn overdue(now: Instant, channel: &Channel, sent: &Sent) -> Duration {
    let age = now.since(sent.at());
    age.saturating_sub(channel.path().rtt() * 2)
}

/// Longest time that a channel is expected to need, also one that brings nothing now.
const NEVER: Duration = Duration::from_secs(60);
/// A smaller gain is not worth a duplicate.
const MIN_GAIN: Duration = Duration::from_millis(5);
/// A stalled channel's chunks are sent again up to this much at a time …
const MAX_REINJECTED: u64 = 64 * 1024;
/// … and up to what the links carry in this time. TCP may repair the channel's loss at any moment,
/// and then all of it was in vain.
const REINJECTION_SPAN: Duration = Duration::from_millis(100);
