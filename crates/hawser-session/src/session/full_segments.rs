//! Links that drop large packets: how a session finds out, and tells the side that makes the
//! connections.

use std::time::Duration;

use hawser_types::{ChannelId, Instant, LinkIndex};

use super::Session;
use crate::channel::{Channel, Notice, Route};
use crate::channels::Channels;
use crate::event::Event;
use crate::links::LostSegment;
use crate::side::Side;

impl Session {
    /// Returns the segments that do not arrive over a link, if any were found lost, for clients: on
    /// the way of the connections that they begin.
    /// [`Event::Spread`] tells of changes.
    pub fn lost_segment(&self, link: LinkIndex) -> Option<LostSegment> {
        self.links.lost_segments().on(link)
    }

    /// Gives a channel up whose full segments do not arrive.
    pub(super) fn check_full_segments(&mut self, now: Instant, id: ChannelId) {
        let found = self.links.lost_segments().latest();
        if let Some(channel) = self.channels.get(id) {
            let asked = self.channels.sign_of_life(channel);
            let came = self.channels.came_at(channel.route());
            if let Some(channel) = self.channels.get_mut(id) {
                channel.on_signs_of_life(asked, came);
            }
        }
        let Some(channel) = self.channels.get(id) else {
            return;
        };
        if self.channels.loses_full_segments(now, channel, found) {
            self.blame_full_segments(now, id, |_| true);
            self.give_up(now, id);
        } else if Channels::may_lose_full_segments(channel) {
            self.ask_beside(now, id, ASK_EVERY);
        } else if self.channels.wants_sign_of_life(now, channel, found) {
            let stall = channel.full_segments().stall();
            let pause = stall.map_or(ASK_EVERY, |stall| now.since(stall.repeated_at));
            self.ask_beside(now, id, pause);
        }
    }

    /// Takes note that full segments do not arrive the way of a channel, if `is_cause` holds for
    /// it. The side that began it has to know, since its connections bound the segments of both
    /// sides: a gateway tells the client. A client tells the gateway nothing; it gives the channel
    /// up.
    pub(super) fn blame_full_segments(
        &mut self,
        now: Instant,
        id: ChannelId,
        is_cause: impl Fn(&Channel) -> bool,
    ) {
        let Some(channel) = self.channels.get(id).filter(|channel| is_cause(channel)) else {
            return;
        };
        let (link, size) = (channel.link(), channel.segment_size());
        tracing::info!(%id, %link, size, "full segments do not arrive");
        if channel.route().is_further() {
            if self.side == Side::Gateway {
                self.events
                    .push(Event::SegmentsLost(id, LostSegment { size, at: now }));
            }
            return;
        }
        self.links.lost_segments_mut().note(now, link, size);
        match self.side {
            Side::Client => self.events.push(Event::Spread(link)),
            Side::Gateway => {
                for channel in self.channels.ids(|_| true) {
                    self.notify(channel, Notice::SegmentsLost(link));
                }
            }
        }
    }

    /// Tells the client over a fresh channel, ahead of all else, that its full segments will not
    /// arrive. The channels before may have one ahead of everything that they were to say.
    pub(super) fn warn_of_lost_segments(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get(id) else {
            return;
        };
        let link = channel.link();
        let lost = self.links.lost_segments().on(link);
        let is_too_large = lost.is_some_and(|lost| channel.segment_size() >= lost.size);
        if self.side == Side::Gateway && is_too_large && !channel.route().is_further() {
            self.notify(id, Notice::SegmentsLost(link));
        }
    }

    /// The peer finds that segments of this size do not arrive over a link.
    pub(super) fn on_segments_lost(&mut self, now: Instant, link: LinkIndex, size: u32) {
        let is_known = self
            .channels
            .of_route(Route::of_client(link))
            .next()
            .is_some();
        if self.side == Side::Client && is_known {
            self.links.lost_segments_mut().note(now, link, size);
            self.events.push(Event::Spread(link));
        }
    }

    /// Asks for a sign of life on the other channels of a way, of which one has nothing delivered:
    /// their answer tells a dead link from one that only drops large packets. Channels that were
    /// asked within `pause` are not asked again.
    fn ask_beside(&mut self, now: Instant, id: ChannelId, pause: Duration) {
        let Some(route) = self.channels.get(id).map(Channel::route) else {
            return;
        };
        let is_due = |other: &Channel| {
            let asked = other.liveness().heartbeat_at();
            other.id() != id
                && other.route() == route
                && asked.is_none_or(|at| now.since(at) > pause)
        };
        for other in self.channels.ids(is_due) {
            self.beat(now, other);
        }
    }
}

/// Pause between questions on channels beside one on which nothing is delivered.
const ASK_EVERY: Duration = Duration::from_secs(2);
