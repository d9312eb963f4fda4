//! Channels that fall silent, die, and leave their work to others.

use std::time::Duration;

use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, Command};
use smallvec::SmallVec;

use super::Session;
use crate::channel::{Channel, Notice, Route, Sent};
use crate::channels::Channels;
use crate::event::{CloseReason, Event};
use crate::links::Pressure;
use crate::recorder::Note;
use crate::side::Side;
use crate::transport::Transport;
use crate::unacknowledged::ChunkKey;

impl Session {
    /// Takes note that a channel's connection is gone: reset, closed by the peer, or its link went
    /// away. Chunks in flight on it go over the others.
    pub fn handle_channel_lost(&mut self, now: Instant, id: ChannelId) {
        if self.channels.contains(id) {
            self.remove_channel(now, id);
            self.command(&Command::ChannelClosed { channel: id });
            self.schedule(now);
        }
    }

    /// Sends something on every channel that the peer's host has to acknowledge;
    /// [`Self::was_heard_since`] tells whether it did.
    pub fn probe(&mut self, now: Instant) {
        for id in self.channels.ids(|_| true) {
            self.beat(now, id);
        }
    }

    /// Asks links for a sign of life: those on which nothing was heard for `rest`, and those on
    /// which data stopped coming `pause` ago, unless an answer is due there anyway. Without that, a
    /// link that falls silent while there is nothing to send looks as it did before.
    pub fn probe_at_rest(&mut self, now: Instant, rest: Duration, pause: Duration) {
        let mut asked: SmallVec<[Route; 4]> = SmallVec::new();
        let mut ids: SmallVec<[ChannelId; 4]> = SmallVec::new();
        for channel in self.channels.iter().filter(|it| !it.is_association()) {
            let route = channel.route();
            if !asked.contains(&route) {
                asked.push(route);
                ids.extend(self.channels.to_probe_at_rest(
                    now,
                    route,
                    (rest, pause),
                    self.is_watching(now),
                ));
            }
        }
        for id in ids {
            self.beat(now, id);
        }
    }

    /// True if no data was in flight or came for `pause` on channels that are
    /// [probed at rest](Self::probe_at_rest).
    pub fn is_quiet(&self, now: Instant, pause: Duration) -> bool {
        let mut asked = self.channels.iter().filter(|it| !it.is_association());
        asked.all(|channel| {
            let heard = channel.inbound().latest();
            !channel.is_busy() && heard.is_none_or(|at| now.since(at) >= pause)
        })
    }

    /// True if an acknowledgement came on any channel after `at`, as far as its samples show.
    pub fn was_heard_since(&self, at: Instant) -> bool {
        let last_heard = |channel: &Channel| channel.path().silence().last_heard();
        self.channels.iter().any(|it| last_heard(it) > Some(at))
    }

    /// True if channels are looked after, so that what was written is awaited. A sample that is
    /// older than the last look finds in flight what is not, and where the driver was held up for
    /// long, nothing is known.
    pub(super) fn is_watching(&self, now: Instant) -> bool {
        let look = self.lifecycle.look_at();
        look.is_some_and(|at| now.since(at) < LATE)
    }

    /// Looks after every channel, and ends the session when it has had none for too long.
    pub(super) fn look_after_channels(&mut self, now: Instant) {
        if self.lifecycle.is_look_due(now) {
            self.check_silence(now);
            self.check_crawling(now);
            self.check_recovery(now);
            self.reinject_heads(now);
            self.reinject_the_limited(now);
            self.govern(now);
            let busy = self.channels.iter().any(Channel::is_busy);
            // When the next silence becomes telling, and now and then besides.
            let telling = || self.channels.next_telling(now, SHORTEST_TICK);
            let within = |at: Instant| at.clamp(now + SHORTEST_TICK, now + TICK);
            let next = busy.then(|| telling().map_or(now + TICK, within));
            self.lifecycle.set_look(next);
        }
        self.count_channels(now);
        if self.lifecycle.is_abandoned(now) {
            self.end(CloseReason::Abandoned);
        }
    }

    /// Ends suspicions of channels on which acknowledgements come again.
    pub(super) fn check_recovery(&mut self, now: Instant) {
        let channels = &self.channels;
        for id in channels.ids(|channel| channels.has_recovered(now, channel)) {
            // It may have recovered with another channel of its link.
            if self.channels.get(id).is_some_and(Channel::is_suspect) {
                for other in self.channels.on_quick_again(id) {
                    self.recover(now, other);
                }
                self.recover(now, id);
            }
        }
    }

    /// Doubts a way that was silent for so long that a channel there was given up, or that the peer
    /// finds silent. Its other channels may never have had anything in flight: they have to
    /// answer before they get any.
    pub(super) fn doubt(&mut self, now: Instant, route: Route) {
        let is_meant = |channel: &Channel| channel.route() == route && !channel.is_suspect();
        let ids = self.channels.ids(is_meant);
        for id in &ids {
            if let Some(channel) = self.channels.get_mut(*id) {
                channel.liveness_mut().doubt(now);
            }
        }
        for id in ids {
            self.suspect(now, id);
            self.beat(now, id);
        }
    }

    /// Gives up the silent channels of one kind on a way, since a fresh connection by it stands.
    /// The client alone decides, so that never both ends give up another one.
    pub(super) fn replace_suspects(&mut self, now: Instant, route: Route, role: ChannelRole) {
        if self.side == Side::Gateway {
            return;
        }
        let suspects = self.channels.suspects_of(route, role);
        for id in suspects.map(Channel::id).collect::<SmallVec<[_; 8]>>() {
            self.blame_full_segments(now, id, Channels::stalled_from_the_start);
            self.give_up(now, id);
        }
    }

    /// Takes a channel out; chunks that no other channel has are sent again.
    pub(super) fn remove_channel(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.remove(id) else {
            return;
        };
        self.counters.channels_lost += 1;
        self.streams.forget_channel(id);
        self.recorder.on_lost(now, &channel);
        let silence = channel.path().silence();
        self.links
            .on_channel_lost(now, channel.link(), &self.channels, silence);
        let was_suspect = channel.is_suspect();
        for key in channel.outbound().chunks() {
            self.unacknowledged.release(key, was_suspect);
        }
        self.repeat_credits();
        if self.channels.is_empty() {
            self.on_last_channel_lost(now);
        }
    }

    fn on_last_channel_lost(&mut self, now: Instant) {
        self.lifecycle.on_last_channel_lost(now);
        if let Some((_, true)) = self.lifecycle.closing() {
            // The peer holds everything, and has most likely gone when it heard of the end.
            self.end(CloseReason::Local);
        }
        // A client that never said hello raced several connections and kept another.
        if self.side == Side::Gateway && !self.commands.is_greeted() {
            self.end(CloseReason::Abandoned);
        }
    }

    fn check_silence(&mut self, now: Instant) {
        for id in self.channels.ids(|_| true) {
            self.check_full_segments(now, id);
            let Some(channel) = self.channels.get(id) else {
                continue;
            };
            let (link, route) = (channel.link(), channel.route());
            // Copies that go the same way would share its fate.
            let others_live = self.channels.live_without(route);
            let others_answer = others_live && self.channels.answer_beside(channel);
            let usual = self.links.usual_silence(link);
            if self.channels.is_dead(now, channel, others_answer, usual) {
                let silence = channel.path().silence();
                tracing::debug!(%id, ?silence, ?now, others_live, "dead");
                let link_is_silent = !self.channels.link_is_heard(channel);
                self.give_up(now, id);
                if link_is_silent && others_live {
                    self.doubt(now, route);
                }
            } else if self.channels.is_silent(now, channel) {
                if others_live && !channel.is_suspect() {
                    self.suspect(now, id);
                } else {
                    self.copy_rest_if_due(now, id);
                }
            } else if channel.wants_heartbeat(now) {
                self.beat(now, id);
            }
        }
    }

    /// Makes all channels of links that crawl suspect. Other links live then: the judgement
    /// compares.
    fn check_crawling(&mut self, now: Instant) {
        let channels = &self.channels;
        let found = channels.ids(|it| !it.liveness().crawls() && channels.judges_crawling(now, it));
        for id in found {
            if let Some(route) = self.channels.get(id).map(Channel::route) {
                self.suspect_crawling(now, route);
            }
        }
    }

    /// Makes all channels of a link that crawls suspect.
    pub(super) fn suspect_crawling(&mut self, now: Instant, route: Route) {
        for id in self.channels.mark_crawling(route) {
            self.suspect(now, id);
        }
    }

    /// Asks the governor about links, and compares the transports.
    fn govern(&mut self, now: Instant) {
        let used_up = self.is_send_memory_full() || self.streams.any_credit_blocked();
        let pressure = Pressure::new(self.bulk_waits(), used_up);
        let (channels, streams) = (&mut self.channels, &self.streams);
        let unacknowledged = &self.unacknowledged;
        self.links
            .govern(now, channels, streams, unacknowledged, pressure);
        let demand = pressure.is_demand();
        if let Some(note) = self.transports.compare(now, channels, demand) {
            self.recorder.note(now, note);
        }
    }

    /// Gives a silent channel up, and tells both the peer and the driver.
    pub(super) fn give_up(&mut self, now: Instant, id: ChannelId) {
        self.remove_channel(now, id);
        self.command(&Command::ChannelClosed { channel: id });
        self.events.push(Event::Dead(id));
    }

    /// Sends something that TCP has to acknowledge, since nothing else is in flight that would
    /// show a dead path.
    pub(super) fn beat(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id) {
            channel.liveness_mut().beat(now);
            self.channels.wake(id);
        }
    }

    /// Makes a silent channel suspect, and copies the chunks in flight on it to others, once for
    /// each such time.
    fn suspect(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let crawls = channel.liveness().crawls();
        tracing::debug!(%id, silence = ?channel.path().silence(), crawls, ?now, "suspect");
        channel.liveness_mut().suspect(now);
        self.recorder.on_suspect(now, channel);
        self.counters.suspects += 1;
        self.events.push(Event::Suspect(id));
        let route = channel.route();
        if self.side == Side::Client && !channel.is_association() && !crawls {
            self.events.push(Event::Spread(channel.link()));
        }
        let arrived = match channel.transport() {
            Transport::Tcp => channel.outbound().arrived_chunks(),
            // There any of them may be missing.
            Transport::Association => 0,
        };
        for key in channel.outbound_mut().take_outbox() {
            self.unacknowledged.release(key, false);
        }
        let sent = channel.outbound().sent();
        let in_flight: Vec<ChunkKey> = sent.map(Sent::chunk).collect();
        for key in &in_flight {
            self.unacknowledged.doubt(*key);
        }
        let missing = in_flight.iter().skip(arrived).copied();
        self.unacknowledged.copy_doubtful(missing);
        if arrived > 0 {
            self.delay_rest(now, id);
        }
        if let Some(other) = self.channels.quickest_off(route) {
            // The peer should not send there either. It may hold chunks of which this side does not
            // know.
            self.notify(other, Notice::Report(id));
        }
        // State that was on its way there may never arrive.
        self.repeat_credits();
        self.schedule(now);
    }

    /// Copies chunks later that the peer's kernel has: its session most likely has them too, and
    /// can say so over another link.
    fn delay_rest(&mut self, now: Instant, id: ChannelId) {
        let sound = self.channels.not_suspect();
        let round_trip = sound.map(|other| other.path().rtt()).min();
        let at = now + round_trip.unwrap_or_default() * 2 + ANSWER_MARGIN;
        if let Some(channel) = self.channels.get_mut(id) {
            channel.liveness_mut().copy_rest_at(at);
        }
    }

    fn copy_rest_if_due(&mut self, now: Instant, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id)
            && channel.liveness_mut().take_copy_rest(now)
        {
            let rest = channel.outbound().sent().map(Sent::chunk);
            self.unacknowledged.copy_doubtful(rest);
        }
    }

    fn recover(&mut self, now: Instant, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let (since, was_doubted) = channel.liveness_mut().recover(now);
        // Copies that were there before the originals were worth it.
        let chunks = &mut self.unacknowledged;
        let is_missing = |sent: &Sent| chunks.contains(sent.chunk());
        if !was_doubted && channel.outbound().sent().any(is_missing) {
            channel.on_false_alarm();
        }
        for sent in channel.outbound().sent() {
            chunks.trust(sent.chunk());
        }
        let link = channel.link();
        let note = Note::Recovered {
            channel: id,
            link,
            after: now.since(since),
        };
        self.recorder.note(now, note);
        self.events.push(Event::Recovered(id));
        if self.side == Side::Client && link != LinkIndex::ALL {
            self.events.push(Event::Spread(link));
        }
    }

    fn repeat_credits(&mut self) {
        if self.streams.owe_all_credit() {
            self.channels.wake_quickest();
        }
    }
}

/// Time between two looks at channels with something in flight.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// A look that is late by more finds old samples: the machine is busy.
const LATE: Duration = Duration::from_millis(200);
/// The resolution of drivers' clocks.
const SHORTEST_TICK: Duration = Duration::from_millis(1);
/// Time that a peer needs to say what it has, beyond round trips.
const ANSWER_MARGIN: Duration = Duration::from_millis(40);
