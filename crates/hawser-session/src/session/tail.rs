//! Channels that have nothing left to send help those that have too much under way.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};

use super::Session;
use crate::channel::{Channel, Sent};
use crate::ledger::ChunkKey;
use crate::recorder::Note;

/// How many bytes may be sent twice ahead of need.
#[derive(Debug, Default)]
pub(super) struct Budget {
    spent: u64,
}

impl Budget {
    fn allows(&self, sent: u64, bytes: u64) -> bool {
        self.spent + bytes <= sent / SHARE + FLOOR
    }
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
                Some((key, bytes)) => {
                    self.tail_budget.spent += bytes;
                    self.counters.bytes_duplicated += bytes;
                    self.note_help(now, key, helper);
                    self.assign(key, helper);
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
        let allowed = self.tail_budget.allows(self.payload_sent(), bytes);
        if allowed {
            self.tail_budget.spent += bytes;
        }
        allowed
    }

    /// The chunk in flight elsewhere that gains most if `helper` repeats it.
    fn chunk_to_repeat(
        &self,
        now: Instant,
        helper: ChannelId,
        blocked: bool,
    ) -> Option<(ChunkKey, u64)> {
        let sent = self.payload_sent();
        let helper = self.channels.get(&helper)?;
        let mut best: Option<(Duration, &Sent)> = None;
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
            let here = helper
                .view(now, self.config.chunk_size)
                .arrival(ByteCount::new(u64::from(candidate.length)));
            let there = expected_arrival(now, channel, candidate);
            let gain = there.saturating_sub(here);
            if gain > MIN_GAIN && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, candidate));
            }
        }
        let (_, candidate) = best?;
        let bytes = u64::from(candidate.length);
        self.tail_budget
            .allows(sent, bytes)
            .then_some((candidate.chunk, bytes))
    }

    fn payload_sent(&self) -> u64 {
        self.channels
            .values()
            .map(|channel| channel.payload_sent)
            .sum()
    }
}

/// In how long a chunk in flight will be there. One that is overdue by a whole round trip is
/// taken for lost below, and counts as late by as much again.
fn expected_arrival(now: Instant, channel: &Channel, sent: &Sent) -> Duration {
    let ahead = ByteCount::new(sent.end.saturating_sub(channel.kernel_acknowledged()));
    let drain = channel.path.rate().time_for(ahead).unwrap_or_default();
    let age = now.since(sent.at);
    let overdue = age.saturating_sub(channel.path.rtt() * 2);
    drain.max((channel.path.rtt() / 2).saturating_sub(age)) + overdue
}

/// At most one byte in this many is sent twice ahead of need …
const SHARE: u64 = 50;
/// … and besides those, this much, so that small transfers have tails that can be helped.
const FLOOR: u64 = 256 * 1024;
/// Less is not worth a duplicate.
const MIN_GAIN: Duration = Duration::from_millis(5);
