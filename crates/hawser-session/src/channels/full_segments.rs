//! Links on which short segments arrive and full ones do not.

use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use super::Channels;
use crate::channel::{Channel, Route};

impl Channels {
    /// True if the link of a channel carries short segments only: full ones were sent again and
    /// again, none arrived, and the link answered meanwhile. `found`: time of the latest such
    /// finding on any link.
    pub(crate) fn loses_full_segments(
        &self,
        now: Instant,
        channel: &Channel,
        found: Option<Instant>,
    ) -> bool {
        let Some(stall) = channel.full_segments().stall() else {
            return false;
        };
        // One that has carried full segments needs more evidence: its route must have changed.
        if has_carried(channel) {
            return self.is_alone(now, channel, found)
                && (stall.framed >= FRAMED || self.all_stall_on_live_link(now, channel));
        }
        // Once another channel of the link has an answer to all that it sent since the stall began,
        // everything that was sent before has arrived, or is lost.
        let mut answered = self.of_route(channel.route()).filter_map(answered_at);
        if answered.any(|asked| asked >= stall.since) {
            stall.repeats >= REPEATS
        } else {
            self.all_stall(channel) && stall.repeats >= REPEATS_UNHEARD
        }
    }

    /// Returns the time of a sign of life that the link of a channel was asked for since something
    /// was last sent again there, if it came.
    pub(crate) fn sign_of_life(&self, channel: &Channel) -> Option<Instant> {
        let stall = channel.full_segments().stall()?;
        let others = self.of_route(channel.route());
        let answered = others.filter(|other| other.id() != channel.id());
        let asked = answered.filter_map(answered_at);
        asked.filter(|asked| *asked >= stall.repeated_at).max()
    }

    /// True if the link of a channel is to be asked for a sign of life since the channel has sent
    /// something again, although it has carried much before. Where another link moves, that takes
    /// over, and silences tell the rest. `found`: as in [`Self::loses_full_segments`].
    pub(crate) fn wants_sign_of_life(
        &self,
        now: Instant,
        channel: &Channel,
        found: Option<Instant>,
    ) -> bool {
        has_carried(channel) && stands_still(now, channel) && self.is_alone(now, channel, found)
    }

    /// Returns the time of the latest record that came by a way.
    pub(crate) fn came_at(&self, route: Route) -> Option<Instant> {
        let came = self.of_route(route).filter_map(|it| it.inbound().came_at());
        came.max()
    }

    /// True if no TCP channel that goes another way has full segments delivered, or one of them was
    /// found to lose these since the channel stalled, which may have the same cause.
    fn is_alone(&self, now: Instant, channel: &Channel, found: Option<Instant>) -> bool {
        let stall = channel.full_segments().stall();
        if stall.is_some_and(|stall| found >= Some(stall.since)) {
            return true;
        }
        let moves = |other: &Channel| {
            other.route() != channel.route()
                && !other.is_association()
                && other.outbound().sent().len() > 0
                && !stands_still(now, other)
        };
        !self.iter().any(moves)
    }

    /// True if each channel of the link has a full segment ahead of any answer, and those of this
    /// channel were sent again in vain after the peer's data had come over the link.
    fn all_stall_on_live_link(&self, now: Instant, channel: &Channel) -> bool {
        let stall = channel.full_segments().stall();
        let is_vain = stall.is_some_and(|stall| {
            let answer = stall.repeated_at + channel.path().rtt() * 2 + ANSWER_MARGIN;
            stall.repeats >= REPEATS && stall.repeats_on_live_link() > 0 && now >= answer
        });
        is_vain && self.all_stall(channel)
    }

    /// True if a sign of life of the link would soon show that it carries short segments only.
    pub(crate) fn may_lose_full_segments(channel: &Channel) -> bool {
        let stall = channel.full_segments().stall();
        stall.is_some_and(|stall| stall.repeats >= REPEATS) && !has_carried(channel)
    }

    /// True if full segments are the likely cause of the silence of a channel that a fresh
    /// connection replaces: the handshake of that one has passed, and the channel never carried
    /// much.
    pub(crate) fn stalled_from_the_start(channel: &Channel) -> bool {
        let stall = channel.full_segments().stall();
        stall.is_some_and(|stall| stall.repeats > 0) && !has_carried(channel)
    }

    /// True if each channel of the link has a full segment ahead of any answer. On a link that is
    /// only slow, one of them moves.
    fn all_stall(&self, channel: &Channel) -> bool {
        let repeats = |other: &Channel| {
            let stall = other.full_segments().stall();
            stall.is_some_and(|stall| stall.repeats > 0)
        };
        self.of_route(channel.route()).all(repeats)
    }
}

/// True if segments were sent again in vain for longer than a usual repair takes.
fn stands_still(now: Instant, channel: &Channel) -> bool {
    let stall = channel.full_segments().stall();
    stall.is_some_and(|stall| stall.repeats > 0 && now.since(stall.since) > STANDING)
}

/// Returns the time of the latest heartbeat of a channel that had an answer to all that it sent.
fn answered_at(channel: &Channel) -> Option<Instant> {
    let asked = channel.liveness().heartbeat_at()?;
    let is_answered = channel.path().silence().last_heard() > Some(asked)
        && channel.path().latest().unacknowledged == ByteCount::ZERO;
    is_answered.then_some(asked)
}

/// True if so much has arrived that full segments were among it.
fn has_carried(channel: &Channel) -> bool {
    channel.outbound().arrived() >= CARRIED
}

/// The loss probe of TCP, and the first time-out.
const REPEATS: u64 = 2;
const REPEATS_UNHEARD: u64 = 3;
/// Of a channel that has carried much: that often something was sent again between two signs of
/// life of its link, and nothing arrived. Once may be chance, or a link that serves in turns.
const FRAMED: u64 = 2;
/// A repair takes a round trip or two, and a time-out at least 200 ms.
const STANDING: Duration = Duration::from_millis(250);
/// Time that an answer may take beyond two round trips.
const ANSWER_MARGIN: Duration = Duration::from_millis(40);
/// Short records add up to this only after a hundred of them.
const CARRIED: u64 = 8 * 1448;
