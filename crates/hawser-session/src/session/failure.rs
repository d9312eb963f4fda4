//! Channels that fall silent, die, and leave their work to others.

use std::time::Duration;

use hawser_path::Expectation;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::Command;

use super::association::PathSample;
use super::{Session, Side, State, slot};
use crate::arena::Arena;
use crate::channel::{Assigned, Channel};
use crate::ledger::ChunkKey;
use crate::recorder::Note;
use crate::{CloseReason, Event, Transport};

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
            self.rescue_heads(now);
            self.consult_governor(now);
            self.compare_transports(now);
            let busy = self.channels.values().any(Channel::is_busy);
            self.tick_at = busy.then(|| self.next_look(now));
            if !busy {
                self.copies = Arena::default();
            } else if now.since(self.trimmed_at) >= TRIM_EVERY {
                self.trimmed_at = now;
                self.copies.trim();
            }
        }
        self.count_channels(now);
        let lonely = self
            .lonely_since
            .is_some_and(|since| now.since(since) >= self.config.survive);
        if lonely && self.state != State::Closed {
            self.close_now(CloseReason::Abandoned);
        }
    }

    /// When to look again: when the next silence becomes telling, and now and then besides.
    fn next_look(&self, now: Instant) -> Instant {
        let sound = self.channels.values().filter(|c| c.suspect_since.is_none());
        let telling = sound.filter_map(|channel| {
            let silence = channel.path.silence();
            let after = silence.suspect_after(self.expectation(channel));
            Some(silence.began()? + after + SHORTEST_TICK)
        });
        let telling = telling.filter(|at| *at > now).min();
        telling.map_or(now + TICK, |at| at.clamp(now + SHORTEST_TICK, now + TICK))
    }

    /// Channels whose acknowledgements are due have something to send; where one can't take it,
    /// the peer learns the same when the channel moves again, or dies.
    pub(super) fn wake_due_acks(&mut self, now: Instant) {
        let due = |channel: &Channel| channel.inbound.ack_due.is_some_and(|due| due <= now);
        let ids: Ids = self
            .channels
            .values()
            .filter(|c| due(c))
            .map(|c| c.spec.id)
            .collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    /// A suspect channel on which acknowledgements come again is sound again.
    pub(super) fn check_recovery(&mut self, now: Instant) {
        let recovered = |channel: &&Channel| {
            let spoke = |since| {
                channel.path.silence().last_heard() > Some(since)
                    || self.link_lives(channel, self.expectation(channel).rtt)
            };
            channel.suspect_since.is_some_and(spoke) && !self.is_silent(now, channel)
        };
        let ids: Ids = self
            .channels
            .values()
            .filter(recovered)
            .map(|c| c.spec.id)
            .collect();
        for id in ids {
            if let Some(channel) = self.channels.get_mut(&id) {
                let since = channel.suspect_since.take().unwrap_or(now);
                channel.held_back = None;
                let doubted = channel.doubted_at.take().is_some();
                // Copies that were there before the originals were worth it.
                let mut originals = channel.sent.iter();
                if !doubted && originals.any(|sent| self.ledger.get(sent.chunk).is_some()) {
                    channel.path.silence_mut().on_false_alarm();
                }
                for sent in &channel.sent {
                    if let Some(chunk) = self.ledger.get_mut(sent.chunk) {
                        chunk.doubtful = chunk.doubtful.saturating_sub(1);
                        // What no other channel took yet need not be copied any more.
                        self.again[slot(chunk.role)].remove(&sent.chunk.segment);
                    }
                }
                let (channel, link, after) = (id, channel.spec.link, now.since(since));
                let note = Note::Recovered {
                    channel,
                    link,
                    after,
                };
                self.recorder.note(now, note);
                self.events.push_back(Event::Recovered(id));
                if self.side == Side::Client && link != LinkIndex::ALL {
                    self.events.push_back(Event::Spread(link));
                }
            }
        }
    }

    fn check_silence(&mut self, now: Instant) {
        let ids: Ids = self.channels.keys().copied().collect();
        for id in ids {
            let Some(channel) = self.channels.get(&id) else {
                continue;
            };
            // Copies over the same link would share its fate.
            let others_live = self.lives_without(channel.spec.link);
            if self.is_dead(now, channel, others_live) {
                tracing::debug!(%id, silence = ?channel.path.silence(), ?now, others_live, "dead");
                let link = channel.spec.link;
                let link_is_silent = !self.link_lives(channel, self.expectation(channel).rtt);
                self.remove_channel(now, id);
                self.queue_command(&Command::ChannelClosed { channel: id });
                self.events.push_back(Event::Dead(id));
                if link_is_silent && others_live {
                    self.doubt(now, link);
                }
            } else if self.is_silent(now, channel) {
                if others_live && channel.suspect_since.is_none() {
                    self.on_suspect(now, id);
                } else if channel.held_back.is_some_and(|at| at <= now) {
                    self.copy_rest(id);
                }
            } else if channel.wants_heartbeat(now) {
                self.beat(now, id);
            }
        }
    }

    /// Whether another link's channels may still live, and may be used.
    pub(super) fn lives_without(&self, link: LinkIndex) -> bool {
        self.channels.values().any(|other| {
            other.spec.link != link
                && other.suspect_since.is_none()
                && !other.terms.permission.is_forbidden()
                && other.lives_beside(link)
        })
    }

    /// A link was silent for so long that a channel of it was given up, or the peer finds it silent.
    /// Its others may never have had anything under way: they have to answer before they get any.
    pub(super) fn doubt(&mut self, now: Instant, link: LinkIndex) {
        let unsuspected =
            |channel: &&mut Channel| channel.spec.link == link && channel.suspect_since.is_none();
        let mut ids = Ids::new();
        for channel in self.channels.values_mut().filter(unsuspected) {
            channel.doubted_at = Some(now);
            ids.push(channel.spec.id);
        }
        for id in ids {
            self.on_suspect(now, id);
            self.beat(now, id);
        }
    }

    /// Acknowledgements that should have come have not, and the link gives no sign of life.
    fn is_silent(&self, now: Instant, channel: &Channel) -> bool {
        let silence = channel.path.silence();
        let heard = silence.last_heard();
        if channel.doubted_at.is_some_and(|at| heard <= Some(at)) {
            return true;
        }
        let expected = self.expectation(channel);
        silence.current(now) > silence.suspect_after(expected) + self.excuse(now, channel)
            && !self.link_lives(channel, expected.rtt)
    }

    /// Whether the channel is to be given up. The last one that may still live is given more time,
    /// and so is one whose link lives: TCP repairs a loss better than a new connection does.
    fn is_dead(&self, now: Instant, channel: &Channel, others_live: bool) -> bool {
        let expected = self.expectation(channel);
        let patience = match (self.link_lives(channel, expected.rtt), others_live) {
            (true, _) => PATIENCE_WITH_THE_LIVING,
            (false, true) => 1,
            (false, false) => PATIENCE_WITH_THE_LAST,
        };
        let silence = channel.path.silence();
        let usual = self.accounts.get(&channel.spec.link);
        let usual = usual.map_or(Duration::ZERO, |account| account.pauses.patience());
        let dead_after = silence.dead_after(expected).max(usual);
        let dead_after = (dead_after + self.excuse(now, channel)) * patience;
        channel.is_stuck(now) || silence.current(now) > dead_after
    }

    /// How much longer acknowledgements may take on a link that still brings data: they wait in
    /// the queue that the peer has filled, of which this side knows nothing.
    fn excuse(&self, now: Instant, channel: &Channel) -> Duration {
        let mut same_link = self
            .channels
            .values()
            .filter(|other| other.spec.link == channel.spec.link);
        match same_link.any(|other| other.inbound.is_flowing(now)) {
            true => PEERS_QUEUE,
            false => Duration::ZERO,
        }
    }

    /// What a channel has to expect: the round trips of its link's slowest channel, and the time
    /// that the link needs for what is under way on all of them, since they queue together and an
    /// idle one does not know of it.
    pub(super) fn expectation(&self, channel: &Channel) -> Expectation {
        let mut expected = Expectation {
            own_variation: channel.path.latest().rtt_variation,
            ..Expectation::default()
        };
        let mut under_way = ByteCount::ZERO;
        let mut rate = Rate::ZERO;
        for other in self.channels.values() {
            if other.spec.link != channel.spec.link {
                continue;
            }
            let kernel = other.path.latest();
            expected.rtt = expected.rtt.max(kernel.rtt);
            expected.variation = expected.variation.max(kernel.rtt_variation);
            under_way += kernel.unacknowledged;
            if other.kernel_acknowledged() >= MEASURED_AFTER {
                rate = rate.max(other.path.rate());
            }
        }
        // Nobody knows yet what a fresh link can do: it may be one of the slowest.
        if rate == Rate::ZERO {
            rate = SLOWEST_RATE;
        }
        expected.drain = rate.time_for(under_way).unwrap_or_default();
        let oldest = channel.oldest_under_way().unwrap_or(Instant::ZERO);
        let began = channel.path.silence().began().unwrap_or(oldest);
        let rtt = channel.path.rtt();
        expected.due = (oldest + rtt).since(began).min(rtt);
        expected
    }

    /// Whether another channel of the same link was heard since this one fell silent. Then a loss
    /// holds this one up, not the link.
    fn link_lives(&self, channel: &Channel, rtt: Duration) -> bool {
        let Some(began) = channel.path.silence().began() else {
            return true;
        };
        self.channels.values().any(|other| {
            other.spec.link == channel.spec.link
                && other.spec.id != channel.spec.id
                && other.path.silence().last_heard() > Some(began + rtt + SAME_MOMENT)
        })
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
        tracing::debug!(%id, silence = ?channel.path.silence(), ?now, "suspect");
        channel.suspect_since = Some(now);
        self.recorder.on_suspect(now, channel);
        self.counters.suspects += 1;
        self.events.push_back(Event::Suspect(id));
        if self.side == Side::Client && !channel.spec.is_association() {
            self.events.push_back(Event::Spread(channel.spec.link));
        }
        let outbox: Vec<Assigned> = channel.outbox.drain(..).collect();
        let arrived = channel.kernel_acknowledged();
        let first = match channel.spec.transport() {
            Transport::Tcp => channel.sent.partition_point(|sent| sent.end <= arrived),
            // What is missing there may be anywhere.
            Transport::Association => 0,
        };
        let in_flight: Vec<ChunkKey> = channel.sent.iter().map(|sent| sent.chunk).collect();
        for assigned in outbox {
            self.give_back(id, assigned);
        }
        for key in &in_flight {
            if let Some(chunk) = self.ledger.get_mut(*key) {
                chunk.doubtful += 1;
            }
        }
        self.copy(&in_flight[first..]);
        if first > 0 {
            self.hold_back(now, id);
        }
        self.tell_of_silence(id);
        // State that was on its way there may never arrive.
        self.repeat_credits();
        self.schedule(now);
    }

    /// What the peer's kernel has, its session most likely has too, and can say so over another
    /// link. It is copied last.
    fn hold_back(&mut self, now: Instant, id: ChannelId) {
        let sound = self.channels.values().filter(|c| c.suspect_since.is_none());
        let round_trip = sound.map(|other| other.path.rtt()).min();
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.held_back = Some(now + round_trip.unwrap_or_default() * 2 + ANSWER_MARGIN);
        }
    }

    fn copy_rest(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        channel.held_back = None;
        let rest: Vec<ChunkKey> = channel.sent.iter().map(|sent| sent.chunk).collect();
        self.copy(&rest);
    }

    /// Sends chunks again that travel over no sound link.
    fn copy(&mut self, chunks: &[ChunkKey]) {
        for key in chunks {
            if let Some(chunk) = self.ledger.get(*key)
                && chunk.doubtful >= chunk.copies
            {
                self.again[slot(chunk.role)].insert(key.segment, *key);
            }
        }
    }

    pub(super) fn remove_channel(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.remove(&id) else {
            return;
        };
        self.counters.channels_lost += 1;
        self.recorder.on_lost(now, &channel);
        let pauses = &mut self.account(channel.spec.link).pauses;
        pauses.on_lost(now, channel.path.silence());
        let doubtful = channel.suspect_since.is_some();
        let assigned = channel.outbox.iter().map(|assigned| assigned.chunk);
        for key in assigned.chain(channel.sent.iter().map(|sent| sent.chunk)) {
            self.release_copy(key, doubtful);
        }
        self.repeat_credits();
        if self.channels.is_empty() {
            self.lonely_since = Some(now);
            if let State::Closing { told: true, .. } = self.state {
                // The peer holds everything, and has most likely gone when it heard of the end.
                self.close_now(CloseReason::Local);
            }
            // A client that never said hello raced several connections and kept another.
            if self.side == Side::Gateway && !self.commands.greeted {
                self.close_now(CloseReason::Abandoned);
            }
        }
    }

    /// An assigned chunk that was not sent is free again.
    pub(super) fn give_back(&mut self, id: ChannelId, assigned: Assigned) {
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.in_flight = channel.in_flight.saturating_sub(u64::from(assigned.length));
        }
        self.release_copy(assigned.chunk, false);
    }

    fn release_copy(&mut self, key: ChunkKey, doubtful: bool) {
        if let Some(chunk) = self.ledger.get_mut(key) {
            chunk.copies = chunk.copies.saturating_sub(1);
            chunk.doubtful = chunk.doubtful.saturating_sub(u32::from(doubtful));
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
        self.credit_due.extend(self.ahead.told());
        if !self.credit_due.is_empty() {
            self.wake_quickest();
        }
    }
}

impl Channel {
    /// How long nothing new was acknowledged although something is under way.
    pub(super) fn overdue(&self, now: Instant) -> Duration {
        let sent = self.sent.front().map(|sent| sent.at);
        sent.map_or(Duration::ZERO, |at| now.since(at.max(self.last_progress())))
    }

    /// Whether it does not share a link's fate: an association does, where it has no other that answers.
    fn lives_beside(&self, link: LinkIndex) -> bool {
        let sound = |path: &PathSample| path.link != link && path.is_active && !path.is_suspect;
        !self.spec.is_association() || self.paths.iter().any(sound)
    }

    /// Whether nothing has come of what is under way for longer than mending a loss takes: chunks that are
    /// to go over an association go elsewhere meanwhile.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        let rtt = self.path.rtt() + self.path.latest().rtt_variation * 4;
        self.overdue(now) > LATE_AFTER.max(rtt * 2)
    }

    /// The peer's kernel has everything, its session does not say so: does either still live?
    fn wants_heartbeat(&self, now: Instant) -> bool {
        let patience = HEARTBEAT_AFTER.max(self.path.rtt() * 2);
        self.path.latest().unacknowledged == ByteCount::ZERO
            && self.overdue(now) > patience
            && self.heartbeat_at.is_none_or(|at| now.since(at) > patience)
    }

    /// However alive the path seems, nothing gets through it: the peer hangs, or something on the
    /// way swallows what it acknowledges.
    fn is_stuck(&self, now: Instant) -> bool {
        self.overdue(now) > STUCK_AFTER.max(self.path.rtt() * 8)
    }
}

/// How often channels with something under way are looked after.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// The resolution of drivers' clocks.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// How often memory for copies that a busy session did not need is given back.
const TRIM_EVERY: Duration = Duration::from_secs(1);
/// An association probes for the tail sooner, and its time-outs begin with this.
const LATE_AFTER: Duration = Duration::from_millis(300);
const HEARTBEAT_AFTER: Duration = Duration::from_millis(500);
const STUCK_AFTER: Duration = Duration::from_secs(6);
/// What a peer may have in the queue of its link.
const PEERS_QUEUE: Duration = Duration::from_secs(1);
/// A rate that was measured on less is that of the queue's empty beginning.
const MEASURED_AFTER: u64 = 32 * 1024;
/// An analogue modem, or a mobile link at the end of its allowance.
const SLOWEST_RATE: Rate = Rate::from_bytes_per_second(7_500);
/// What a peer needs to say what it has, beyond round trips.
const ANSWER_MARGIN: Duration = Duration::from_millis(40);
const PATIENCE_WITH_THE_LAST: u32 = 5;
const PATIENCE_WITH_THE_LIVING: u32 = 8;
/// Acknowledgements that were under way together.
const SAME_MOMENT: Duration = Duration::from_millis(40);

type Ids = smallvec::SmallVec<[ChannelId; 8]>;
