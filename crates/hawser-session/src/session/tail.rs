//! Channels that have nothing left to send help those that have too much under way.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};

use super::Session;
use crate::channel::{Channel, Sent};
use crate::ledger::ChunkKey;
use crate::recorder::Note;

/// How many bytes may be sent twice ahead of need, by the session and by its associations.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Bytes of payload sent on any channel since the session began, datagrams among them.
    sent: u64,
    spent: u64,
}

impl Budget {
    pub(super) fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
    }

    pub(super) fn spend(&mut self, bytes: u64) {
        self.spent += bytes;
    }

    pub(super) fn allows(&self, bytes: u64) -> bool {
        self.spent + bytes <= self.sent / SHARE + FLOOR
    }
}

/// A chunk that an idle channel repeats.
struct Repeat {
    chunk: ChunkKey,
    bytes: u64,
    /// How much sooner it is there.
    gain: Duration,
    /// It should have come long ago: there is need of it, and it is not charged to the budget.
    overdue: bool,
}

impl Session {
    /// While bulk channels stand idle, they repeat chunks of any channel that would arrive sooner that way: the
    /// last ones when a transfer ends, the first ones when credit holds everything up.
    ///
    /// Source: PATTHEL §III.B leaves the tail open; the idea is that of MPTCP's opportunistic
    /// retransmission (Raiciu et al., NSDI 2012).
    pub(super) fn help_the_tail(&mut self, now: Instant) {
        if self.ledger.is_empty() {
            return;
        }
        let blocked = self
            .streams
            .values()
            .any(|stream| stream.send.is_credit_blocked());
        loop {
            let idle = self.views.iter().filter(|view| view.ready && !view.suspect);
            let Some(helper) = idle.min_by_key(|view| view.rtt).map(|view| view.channel) else {
                return;
            };
            match self.chunk_to_repeat(now, helper, blocked) {
                Some(repeat) => {
                    let Repeat { chunk, bytes, .. } = repeat;
                    if repeat.overdue {
                        self.counters.chunks_again += 1;
                        self.counters.bytes_again += bytes;
                    } else {
                        self.tail_budget.spend(bytes);
                        self.counters.bytes_duplicated += bytes;
                    }
                    self.note_help(now, chunk, helper);
                    self.assign(chunk, helper);
                }
                None => {
                    let helper = self.views.iter_mut().find(|view| view.channel == helper);
                    if let Some(view) = helper {
                        view.ready = false;
                    }
                }
            }
        }
    }

    fn note_help(&mut self, now: Instant, key: ChunkKey, channel: ChannelId) {
        if let Some(chunk) = self.ledger.get(key) {
            let (stream, bytes) = (chunk.header.stream, ByteCount::from(chunk.length));
            let note = Note::Helped {
                stream,
                channel,
                bytes,
            };
            self.recorder.note(now, note);
        }
    }

    /// Whether a small chunk may go over a second link at once.
    pub(super) fn may_duplicate(&mut self, bytes: u64) -> bool {
        let allowed = self.tail_budget.allows(bytes);
        if allowed {
            self.tail_budget.spend(bytes);
        }
        allowed
    }

    /// The chunk in flight elsewhere that gains most if `helper` repeats it.
    fn chunk_to_repeat(&self, now: Instant, helper: ChannelId, blocked: bool) -> Option<Repeat> {
        let helper = self.channels.get(&helper)?;
        let view = helper.view(now, self.config.chunk_size);
        let mut best: Option<Repeat> = None;
        for channel in self.channels.values() {
            if channel.spec.link == helper.spec.link {
                continue;
            }
            let arrived = channel.kernel_acknowledged();
            let pending = |sent: &&Sent| {
                let chunk = self.ledger.get(sent.chunk);
                sent.end > arrived && chunk.is_some_and(|chunk| chunk.copies == 1)
            };
            let candidate = match blocked {
                true => channel.sent.iter().find(pending),
                false => channel.sent.iter().rev().find(pending),
            };
            let Some(candidate) = candidate else { continue };
            let here = view.arrival(ByteCount::new(u64::from(candidate.length)));
            let there = expected_arrival(now, channel, candidate);
            let gain = there.saturating_sub(here);
            let repeat = Repeat {
                chunk: candidate.chunk,
                bytes: u64::from(candidate.length),
                gain,
                overdue: is_needed(now, channel, candidate),
            };
            let allowed = repeat.overdue || self.tail_budget.allows(repeat.bytes);
            if gain > MIN_GAIN && allowed && best.as_ref().is_none_or(|best| gain > best.gain) {
                best = Some(repeat);
            }
        }
        best
    }
}

/// In how long a chunk in flight will be there. One that is overdue by a whole round trip is
/// taken for lost below, and counts as late by as much again.
pub(super) fn expected_arrival(now: Instant, channel: &Channel, sent: &Sent) -> Duration {
    let ahead = ByteCount::new(sent.end.saturating_sub(channel.kernel_acknowledged()));
    let drain = channel.path.rate().time_for(ahead).unwrap_or_default();
    let age = now.since(sent.at);
    drain.max((channel.path.rtt() / 2).saturating_sub(age)) + overdue(now, channel, sent)
}

/// Whether a chunk in flight is so late that TCP would have mended a single loss by now.
pub(super) fn is_needed(now: Instant, channel: &Channel, sent: &Sent) -> bool {
    overdue(now, channel, sent) > NEEDED_AFTER + channel.time_for(u64::from(sent.length) * 2)
}

/// How long a chunk in flight has been on its way beyond two round trips.
fn overdue(now: Instant, channel: &Channel, sent: &Sent) -> Duration {
    let age = now.since(sent.at);
    age.saturating_sub(channel.path.rtt() * 2)
}

/// At most one byte in this many is sent twice ahead of need …
const SHARE: u64 = 50;
/// … and besides those, this much, so that small transfers have tails that can be helped.
const FLOOR: u64 = 256 * 1024;
/// A chunk that is overdue by this is sent again whatever the budget: TCP would have mended a single
/// loss by then (Linux times out 200 ms after the round trip that it expects).
pub(super) const NEEDED_AFTER: Duration = Duration::from_millis(200);
/// Less is not worth a duplicate.
pub(super) const MIN_GAIN: Duration = Duration::from_millis(5);
