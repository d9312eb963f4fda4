//! Channels that fall silent, die, and leave their work to others.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::Command;

use super::{Session, Side, State, slot};
use crate::channel::Channel;
use crate::ledger::ChunkKey;
use crate::{CloseReason, Event};

impl Session {
    /// A channel's connection is gone: reset, closed by the peer, or its link went away. What was
    /// in flight on it goes over the others.
    pub fn handle_channel_lost(&mut self, now: Instant, id: ChannelId) {
        if self.channels.contains_key(&id) {
            self.remove_channel(now, id);
            self.queue_command(&Command::ChannelClosed { channel: id });
            self.schedule(now);
        }
    }

    /// Looks after every channel: silence against expectation, and the wait for any channel.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.tick_at.is_some_and(|at| at <= now) {
            self.check_silence(now);
            self.check_recovery(now);
            let busy = self.channels.values().any(Channel::is_busy);
            self.tick_at = busy.then_some(now + TICK);
        }
        let lonely = self
            .lonely_since
            .is_some_and(|since| now.since(since) >= self.config.survive);
        if lonely && self.state != State::Closed {
            self.close_now(CloseReason::Abandoned);
        }
    }

    /// Channels whose acknowledgements are due have something to send; where one can't take it,
    /// the peer learns the same when the channel moves again, or dies.
    pub(super) fn wake_due_acks(&mut self, now: Instant) {
        let due = |channel: &Channel| channel.inbound.ack_due.is_some_and(|due| due <= now);
        let ids: smallvec::SmallVec<[ChannelId; 8]> = self
            .channels
            .values()
            .filter(|c| due(c))
            .map(|c| c.spec.id)
            .collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    /// A suspect channel on which acknowledgements come again is sound again.
    pub(super) fn check_recovery(&mut self, now: Instant) {
        for channel in self.channels.values_mut() {
            if channel.suspect_since.is_some() && !channel.is_silent(now) {
                channel.suspect_since = None;
                channel.path.silence_mut().on_false_alarm();
                self.events.push_back(Event::Recovered(channel.spec.id));
            }
        }
    }

    fn check_silence(&mut self, now: Instant) {
        let ids: smallvec::SmallVec<[ChannelId; 8]> = self.channels.keys().copied().collect();
        for id in ids {
            let Some(channel) = self.channels.get(&id) else {
                continue;
            };
            if !channel.is_silent(now) && !channel.is_stuck(now) {
                if channel.wants_heartbeat(now) {
                    self.beat(now, id);
                }
                continue;
            }
            // Copies over the same link would share its fate.
            let others_live = self
                .channels
                .values()
                .any(|other| other.spec.link != channel.spec.link && other.suspect_since.is_none());
            if channel.is_dead(now, others_live) {
                self.remove_channel(now, id);
                self.queue_command(&Command::ChannelClosed { channel: id });
                self.events.push_back(Event::Dead(id));
            } else if others_live && channel.suspect_since.is_none() {
                self.on_suspect(now, id);
            }
        }
    }

    /// Sends something that TCP has to acknowledge, since nothing else is under way that would
    /// show a dead path.
    fn beat(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.heartbeat_at = Some(now);
            channel.heartbeat_due = true;
            self.wake(id);
        }
    }

    /// Copies what is in flight on a silent channel, once per episode.
    fn on_suspect(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        channel.suspect_since = Some(now);
        self.counters.suspects += 1;
        self.events.push_back(Event::Suspect(id));
        let outbox: Vec<ChunkKey> = channel.outbox.drain(..).collect();
        let in_flight: Vec<ChunkKey> = channel.sent.iter().map(|sent| sent.chunk).collect();
        for key in outbox {
            self.give_back(id, key);
        }
        for key in in_flight {
            // A chunk that travels elsewhere too needs no third copy.
            if let Some(chunk) = self.ledger.get(key).filter(|chunk| chunk.copies == 1) {
                self.again[slot(chunk.role)].insert(key.segment, key);
            }
        }
        // State that was on its way there may never arrive.
        self.repeat_credits();
        self.schedule(now);
    }

    pub(super) fn remove_channel(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.remove(&id) else {
            return;
        };
        self.counters.channels_lost += 1;
        let keys = channel
            .outbox
            .into_iter()
            .chain(channel.sent.iter().map(|sent| sent.chunk));
        for key in keys {
            self.release_copy(key);
        }
        self.repeat_credits();
        if self.channels.is_empty() {
            self.lonely_since = Some(now);
            // A client that never said hello raced several connections and kept another.
            if self.side == Side::Gateway && !self.commands.greeted {
                self.close_now(CloseReason::Abandoned);
            }
        }
    }

    /// An assigned chunk that was not sent is free again.
    fn give_back(&mut self, id: ChannelId, key: ChunkKey) {
        if let (Some(channel), Some(chunk)) = (self.channels.get_mut(&id), self.ledger.get(key)) {
            channel.in_flight = channel.in_flight.saturating_sub(chunk.length as u64);
        }
        self.release_copy(key);
    }

    fn release_copy(&mut self, key: ChunkKey) {
        if let Some(chunk) = self.ledger.get_mut(key) {
            chunk.copies = chunk.copies.saturating_sub(1);
            if chunk.copies == 0 {
                self.again[slot(chunk.role)].insert(key.segment, key);
            }
        }
    }

    fn repeat_credits(&mut self) {
        let moved = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.receive.has_moved());
        self.credit_due.extend(moved.map(|(id, _)| *id));
        if let Some(quickest) = self.quickest().filter(|_| !self.credit_due.is_empty()) {
            self.wake(quickest);
        }
    }
}

impl Channel {
    /// Acknowledgements that should have come have not.
    fn is_silent(&self, now: Instant) -> bool {
        let (silence, kernel) = (self.path.silence(), self.path.latest());
        silence.current(now) > silence.suspect_after(kernel.rtt, kernel.rtt_variation)
    }

    /// How long the peer's session has not acknowledged what it should have.
    fn overdue(&self, now: Instant) -> Duration {
        let sent = self.sent.front().map(|sent| sent.at);
        sent.map_or(Duration::ZERO, |at| {
            now.since(at.max(self.last_session_ack))
        })
    }

    /// The peer's kernel has everything, its session does not say so: does either still live?
    fn wants_heartbeat(&self, now: Instant) -> bool {
        let patience = HEARTBEAT_AFTER.max(self.path.rtt() * 2);
        self.path.latest().unacknowledged == ByteCount::ZERO
            && self.overdue(now) > patience
            && self.heartbeat_at.is_none_or(|at| now.since(at) > patience)
    }

    /// The kernels understand each other, and still the peer's session does not answer.
    fn is_stuck(&self, now: Instant) -> bool {
        self.path.latest().unacknowledged == ByteCount::ZERO && self.overdue(now) > STUCK_AFTER
    }

    /// The last channel that may still live is given more time.
    fn is_dead(&self, now: Instant, others_live: bool) -> bool {
        if self.is_stuck(now) {
            return true;
        }
        let silence = self.path.silence();
        let patience = if others_live {
            1
        } else {
            PATIENCE_WITH_THE_LAST
        };
        silence.current(now) > silence.dead_after(self.path.rtt()) * patience
    }
}

/// How often channels with something under way are looked after.
pub(super) const TICK: Duration = Duration::from_millis(20);
const HEARTBEAT_AFTER: Duration = Duration::from_millis(500);
const STUCK_AFTER: Duration = Duration::from_secs(15);
const PATIENCE_WITH_THE_LAST: u32 = 5;
