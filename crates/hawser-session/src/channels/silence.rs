//! Judges the silence of a channel, given the other channels on its way and on other ways.

use std::time::Duration;

use hawser_path::Expectation;
use hawser_path::crawling::MEASURED_AFTER;
use hawser_types::{ByteCount, ChannelId, Instant, Rate};

use super::Channels;
use crate::channel::{Channel, Route};

impl Channels {
    /// Returns what a channel has to expect: the round trips of its link's slowest channel, and the
    /// time that the link needs for the data in flight on all of them. They queue together, and an
    /// idle one does not know of it.
    pub(crate) fn expectation(&self, channel: &Channel) -> Expectation {
        let mut expected = Expectation {
            own_variation: channel.path().latest().rtt_variation,
            ..Expectation::default()
        };
        let mut in_flight = ByteCount::ZERO;
        let mut rate = Rate::ZERO;
        for other in self.of_link(channel.link()) {
            let kernel = other.path().latest();
            expected.rtt = expected.rtt.max(kernel.rtt);
            expected.variation = expected.variation.max(kernel.rtt_variation);
            in_flight += kernel.unacknowledged;
            if other.outbound().arrived() >= MEASURED_AFTER {
                rate = rate.max(other.path().rate());
            }
        }
        // A fresh link is not measured yet: it may be one of the slowest.
        if rate == Rate::ZERO {
            rate = SLOWEST_RATE;
        }
        expected.drain = rate.time_for(in_flight).unwrap_or_default();
        let oldest = channel.outbound().oldest_in_flight();
        let oldest = oldest.unwrap_or(Instant::ZERO);
        let path = channel.path();
        expected.due = path.silence().due(oldest, path.rtt());
        expected
    }

    /// True if acknowledgements are overdue on a channel, and its link gives no sign of life.
    pub(crate) fn is_silent(&self, now: Instant, channel: &Channel) -> bool {
        let silence = channel.path().silence();
        if channel.liveness().is_in_doubt(silence.last_heard()) {
            return true;
        }
        if channel.is_relayed() {
            return channel.is_held_up(now);
        }
        let expected = self.expectation(channel);
        silence.current(now) > silence.suspect_after(expected) + self.excuse(now, channel)
            && !self.link_lives(channel, expected.rtt)
    }

    /// True if a channel is to be given up. The last one that may still live is given more time,
    /// and so is one whose link lives: TCP repairs a loss better than a new connection does.
    /// `usual`: the longest silence that is usual for the link.
    pub(crate) fn is_dead(
        &self,
        now: Instant,
        channel: &Channel,
        others_live: bool,
        usual: Duration,
    ) -> bool {
        if channel.is_relayed() {
            return channel.is_stuck(now);
        }
        let expected = self.expectation(channel);
        let patience = match (self.link_lives(channel, expected.rtt), others_live) {
            (true, _) => PATIENCE_WITH_A_LIVE_LINK,
            (false, true) => 1,
            (false, false) => PATIENCE_WITH_THE_LAST,
        };
        let silence = channel.path().silence();
        let dead_after = silence.dead_after(expected).max(usual);
        let dead_after = (dead_after + self.excuse(now, channel)) * patience;
        channel.is_stuck(now) || silence.current(now) > dead_after
    }

    /// True if a suspect channel speaks again, or its link does.
    pub(crate) fn has_recovered(&self, now: Instant, channel: &Channel) -> bool {
        if channel.liveness().crawls() {
            return self.is_quick_again(now, channel);
        }
        let spoke = |since| {
            channel.path().silence().last_heard() > Some(since) || self.link_is_heard(channel)
        };
        channel.liveness().suspect_since().is_some_and(spoke)
            && !self.is_silent(now, channel)
            && !self.judges_crawling(now, channel)
    }

    /// True if another channel that goes the same way was heard since this one fell silent. Then a
    /// loss holds this one up, not the link.
    pub(crate) fn link_is_heard(&self, channel: &Channel) -> bool {
        self.link_lives(channel, self.expectation(channel).rtt)
    }

    /// True if this side had no sign of life by a way for as long as would make it suspect, even
    /// if nothing was due: little was in flight there since.
    pub(crate) fn seems_silent(&self, now: Instant, route: Route) -> bool {
        self.of_route(route).all(|channel| {
            let silence = channel.path().silence();
            let patience = silence.suspect_after(self.expectation(channel));
            let unheard = silence.last_heard().map(|at| now.since(at));
            unheard.is_none_or(|unheard| unheard > patience.max(QUIET))
        })
    }

    /// Returns the channel by which to ask for a sign of life by a way, if it is time to.
    pub(crate) fn to_probe_at_rest(
        &self,
        now: Instant,
        route: Route,
        (rest, pause): (Duration, Duration),
        is_watching: bool,
    ) -> Option<ChannelId> {
        let is_awaited = |channel: &Channel| {
            let is_asked = channel.liveness().heartbeat_at();
            (is_watching && channel.path().silence().began().is_some())
                || is_asked.is_some_and(|at| now.since(at) < ASKED)
        };
        if self.of_route(route).any(is_awaited) {
            return None;
        }
        let heard = self.of_route(route).filter_map(Channel::last_heard).max();
        let brought = self
            .of_route(route)
            .filter_map(|it| it.inbound().latest())
            .max();
        let acknowledged = self.of_route(route);
        let acknowledged = acknowledged
            .filter_map(|it| it.path().silence().last_heard())
            .max();
        let unheard = heard.map_or(rest, |at| now.since(at));
        let has_stopped = brought > acknowledged && unheard >= pause;
        let quickest = || {
            self.of_route(route)
                .min_by_key(|channel| channel.path().rtt())
        };
        (unheard >= rest || has_stopped).then(|| quickest().map(Channel::id))?
    }

    /// True if channels that go another way may still live, and may be used. One that crawls is
    /// better than none.
    pub(crate) fn live_without(&self, route: Route) -> bool {
        let lives = |other: &&Channel| !other.is_suspect() || other.liveness().crawls();
        self.iter().filter(lives).any(|other| {
            other.route() != route
                && !other.standing().rules().permission().is_forbidden()
                && other.lives_beside(route.link())
        })
    }

    /// True if the silence of a channel is its own. TCP channels share their links with an
    /// association: as long as none of them was heard since that fell silent, the links may be
    /// silent, and they seem to live only since nothing is in flight on them. So do channels of one
    /// link that the gateway has begun, and those that it has not.
    pub(crate) fn answer_beside(&self, channel: &Channel) -> bool {
        let Some(began) = channel.path().silence().began() else {
            return true;
        };
        let heard = |other: &Channel| {
            let heard = other.path().silence().last_heard();
            !other.is_association() && heard > Some(began + SAME_MOMENT)
        };
        if channel.is_association() {
            self.iter().any(heard)
        } else {
            self.iter().any(|other| {
                other.route() != channel.route() && (other.link() != channel.link() || heard(other))
            })
        }
    }

    /// Returns when the next silence becomes telling.
    pub(crate) fn next_telling(&self, now: Instant, resolution: Duration) -> Option<Instant> {
        let telling = self.not_suspect().filter_map(|channel| {
            let silence = channel.path().silence();
            let after = silence.suspect_after(self.expectation(channel));
            Some(silence.began()? + after + resolution)
        });
        telling.filter(|at| *at > now).min()
    }

    /// Returns how much longer acknowledgements may take on a link that still brings data: they
    /// wait in the queue that the peer has filled, of which this side knows nothing.
    fn excuse(&self, now: Instant, channel: &Channel) -> Duration {
        let mut same_link = self.of_link(channel.link());
        if same_link.any(|other| other.inbound().is_flowing(now)) {
            PEERS_QUEUE
        } else {
            Duration::ZERO
        }
    }

    fn link_lives(&self, channel: &Channel, rtt: Duration) -> bool {
        let Some(began) = channel.path().silence().began() else {
            return true;
        };
        self.of_route(channel.route()).any(|other| {
            other.id() != channel.id()
                && other.path().silence().last_heard() > Some(began + rtt + SAME_MOMENT)
        })
    }
}

/// Delay that a peer's queue may add.
const PEERS_QUEUE: Duration = Duration::from_secs(1);
/// An analogue modem, or a mobile link at the end of its allowance.
const SLOWEST_RATE: Rate = Rate::from_bytes_per_second(7_500);
const PATIENCE_WITH_THE_LAST: u32 = 5;
const PATIENCE_WITH_A_LIVE_LINK: u32 = 8;
/// Acknowledgements that were in flight together come within this time.
const SAME_MOMENT: Duration = Duration::from_millis(40);
/// The answer to a heartbeat is awaited for so long where no sample has shown it in flight.
const ASKED: Duration = Duration::from_secs(1);
/// A link that was heard within this time is not as silent as the peer believes.
const QUIET: Duration = Duration::from_millis(60);
