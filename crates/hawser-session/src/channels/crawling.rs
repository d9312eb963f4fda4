//! Links that are as good as dead, and still answer.
//!
//! A link that suddenly carries 20 kbit/s holds what it is given for seconds, and everything in
//! order waits for it. It keeps answering, so the rules for silence never make it suspect. A link
//! *crawls* if data has been in flight on it for several round trips and it brought less than a
//! sixty-fourth of what another link brings in that time. Then it gets only trials: copies of a
//! few kilobytes that go over another link as well. A trial that arrives quickly ends this.

use std::time::Duration;

use hawser_path::crawling;
use hawser_types::{ByteCount, ChannelId, Instant, Rate};
use hawser_wire::ChannelRole;

use super::{ChannelIds, Channels};
use crate::channel::{Channel, Route};

impl Channels {
    /// True if a channel's link crawls.
    pub(crate) fn judges_crawling(&self, now: Instant, channel: &Channel) -> bool {
        let span = channel.crawl_span();
        let is_measured = channel.path().min_rtt().is_some();
        let compared = || self.comparison(now, channel, span, crawling::LEAST_SHARE);
        let Some((span, came, best)) = is_measured.then(compared).flatten() else {
            return false;
        };
        // Without any answer it is silent, which is judged elsewhere.
        let heard = channel.path().silence().last_heard();
        if heard.is_none_or(|at| now.since(at) > span) {
            return false;
        }
        let beside = self
            .of_route(channel.route())
            .filter(|it| it.id() != channel.id());
        let beside = beside.filter_map(|it| it.came_within(now, span));
        let came = came + beside.sum::<ByteCount>();
        crawling::is_crawl(came, span, best)
    }

    /// Returns the rate at which a channel has brought its data lately, if that is late and far
    /// below what the channel brought before, or what another link would bring.
    pub(crate) fn slow_pace(&self, now: Instant, channel: &Channel) -> Option<Rate> {
        let span = channel.crawl_span() / 2;
        let (span, came, best) = self.comparison(now, channel, span, crawling::FAR_BELOW)?;
        crawling::slow_pace(came, span, channel.path().rate(), best)
    }

    /// Returns for a channel on which much is late: the span over which it shows whether it is
    /// slower than the best other one by a factor, what came within it, and the other's rate.
    fn comparison(
        &self,
        now: Instant,
        channel: &Channel,
        span: Duration,
        factor: u64,
    ) -> Option<(Duration, ByteCount, Rate)> {
        // More than a packet or two in flight by the channel's way.
        let is_much = || {
            let all = self.of_route(channel.route());
            all.map(|it| it.outbound().not_arrived()).sum::<u64>() >= crawling::MUCH
        };
        if !is_compared(channel) || !channel.is_late_by(now, span) || !is_much() {
            return None;
        }
        let best = self.best_rate_beside(now, channel.route(), span);
        let any_idle = || self.any_idle_beside(channel.route());
        let alone = || channel.time_for(crawling::FEW_BYTES * 2);
        let span = crawling::telling_span(best, span, factor, any_idle, alone)?;
        let came = channel.came_within(now, span)?;
        channel.is_late_by(now, span).then_some((span, came, best))
    }

    /// Returns the TCP channels of other links that may be used and are not suspect.
    fn compared_beside(&self, route: Route) -> impl Iterator<Item = &Channel> {
        let others = self.iter().filter(move |it| it.route() != route);
        others.filter(|it| it.is_usable() && is_compared(it))
    }

    /// True if another link could carry bulk, and everything on it has arrived.
    fn any_idle_beside(&self, route: Route) -> bool {
        let mut others = self.compared_beside(route);
        others.any(|other| {
            let mut all = self.of_route(other.route());
            other.role() == ChannelRole::Bulk
                && all.all(|it| it.is_usable() && it.has_all_arrived())
        })
    }

    /// Notes that the link that channels go by crawls. Returns those of them that were not suspect.
    pub(crate) fn mark_crawling(&mut self, route: Route) -> ChannelIds {
        self.remember_crawling(route);
        let sound = self.ids(|channel| channel.route() == route && !channel.is_suspect());
        for channel in self.iter_mut().filter(|channel| channel.route() == route) {
            channel.liveness_mut().crawl();
        }
        sound
    }

    /// Remembers a way for connections to come. One that the gateway began is no way to another.
    fn remember_crawling(&mut self, route: Route) {
        if route.is_further() || self.crawling.contains(&route) {
            return;
        }
        // A peer may go by ever new ways.
        if self.crawling.len() >= MOST_CRAWLING {
            self.crawling.remove(0);
        }
        self.crawling.push(route);
    }

    /// True if a new channel by this way is to begin as suspect: the way's channels crawl, or did
    /// when there were any, and other links are better.
    pub(crate) fn is_born_crawling(&self, route: Route) -> bool {
        self.crawling.contains(&route) && self.compared_beside(route).next().is_some()
    }

    /// Notes that a link does not crawl any more. Returns its other channels.
    pub(crate) fn on_quick_again(&mut self, channel: ChannelId) -> ChannelIds {
        let Some(route) = self.get(channel).map(Channel::route) else {
            return ChannelIds::new();
        };
        self.crawling.retain(|it| *it != route);
        self.ids(|it| it.route() == route && it.id() != channel && it.liveness().crawls())
    }

    /// True if a channel's link does not crawl any more: the latest trial arrived quickly, or the
    /// data in flight arrives at half of the best link's rate. A link also counts as well again if
    /// no other link is left to compare it with, or if there was no trial for ten seconds.
    pub(super) fn is_quick_again(&self, now: Instant, channel: &Channel) -> bool {
        let route = channel.route();
        if self.compared_beside(route).next().is_none() {
            return true;
        }
        let Some(since) = channel.liveness().suspect_since() else {
            return false;
        };
        let span = channel.crawl_span();
        let best = self.best_rate_beside(now, route, span);
        let came = channel.came_within(now, span).unwrap_or_default();
        let flows = came.as_u64() >= crawling::FEW_BYTES.max((best * span).as_u64() / FLOWS);
        if now.since(since) >= span && flows {
            return true;
        }
        if !channel.has_all_arrived() {
            return false;
        }
        match channel.liveness().trial() {
            Some(trial) if trial.at >= since => {
                let outbound = channel.outbound();
                let took = outbound.last_progress().since(trial.at);
                let length = channel.path().min_rtt().unwrap_or_default();
                let most = crawling::longest_trial(trial.bytes, length, DELAYED, best);
                let was_sent = outbound.payload() >= trial.payload;
                was_sent && (!took.is_zero() && took <= most || now.since(trial.at) >= UNTRIED)
            }
            _ => now.since(since) >= UNTRIED,
        }
    }

    /// Returns a channel whose link crawls and that should have a copy of the chunk for `first`: a
    /// trial. Trials take a hundredth of the best link's rate at most. A single packet crosses any
    /// link quickly, so there is no trial unless `waiting` bytes are several packets.
    pub(crate) fn due_for_trial(
        &self,
        now: Instant,
        first: ChannelId,
        waiting: u64,
    ) -> Option<ChannelId> {
        let mut crawling = self.iter().filter(|it| it.liveness().crawls()).peekable();
        crawling.peek().filter(|_| waiting >= LEAST_TRIAL)?;
        let first = self.get(first).filter(|first| !first.is_suspect())?;
        let is_due = |channel: &&Channel| {
            channel.route() != first.route()
                && !channel.is_excluded()
                && channel.takes_chunks()
                && channel.has_all_arrived()
                && channel.liveness().trial().is_none_or(|trial| {
                    let span = channel.crawl_span();
                    let best = self.best_rate_beside(now, channel.route(), span);
                    let pause = crawling::pause_after_trial(trial.bytes, best);
                    now.since(trial.at) >= pause.max(BETWEEN_TRIALS)
                })
        };
        crawling.find(is_due).map(Channel::id)
    }

    /// Returns the rate of the best channel beside a link: what it has brought within a span while
    /// it was late or is not measured, or what it is known to carry.
    fn best_rate_beside(&self, now: Instant, route: Route, span: Duration) -> Rate {
        let rates = self.compared_beside(route).map(|other| {
            let is_measured = other.outbound().arrived() >= crawling::MEASURED_AFTER;
            let is_known = is_measured && !other.is_late_by(now, span);
            let known = is_known.then(|| other.path().rate());
            crawling::rate_beside(known, other.came_within(now, span), span)
        });
        rates.max().unwrap_or(Rate::ZERO)
    }
}

/// True for a channel over TCP to the peer itself: paths of an association are judged below.
fn is_compared(channel: &Channel) -> bool {
    !channel.is_association() && !channel.is_relayed()
}

/// A link that brings so large a part flows.
const FLOWS: u64 = 2;
/// A link that could not be tried for so long is taken for well.
const UNTRIED: Duration = Duration::from_secs(10);
/// Ways that are remembered.
const MOST_CRAWLING: usize = 16;
/// Two segments: the least chunk for a slow channel.
const LEAST_TRIAL: u64 = 3000;
/// Trials are apart by this at least.
const BETWEEN_TRIALS: Duration = Duration::from_millis(250);
/// Delayed acknowledgements, and looks at the kernel.
const DELAYED: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests;
