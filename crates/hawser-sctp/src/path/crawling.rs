//! Paths that are as good as dead beside another one, and still answer.
//!
//! The rule is that of a session's channels, with the figures of [`hawser_path::crawling`]. Data
//! in flight on such a path goes again over others, and it gets no more. Pairs of heartbeats show
//! whether it is well again: a short one, and behind it one as large as a packet of data. The time
//! between their answers is what the path needs for the large one, whatever the path's length and
//! whatever waits there.

use std::time::Duration;

use hawser_path::crawling;
use hawser_types::{ByteCount, Instant, PathId, Rate};

use super::standing::{Crawl, PathStanding, Second};
use super::{Path, PathState, Paths};
use crate::LossRule;

impl Paths {
    /// Judges all paths by what has arrived over them lately.
    pub(crate) fn watch(&mut self, now: Instant) {
        if self.config.losses != LossRule::PerPath || self.paths.len() < 2 {
            return;
        }
        if now.since(self.watched) < BETWEEN_LOOKS {
            return;
        }
        self.watched = now;
        for path in &mut self.paths {
            // As long as `comparison` may ask for.
            let (arrived, span) = (path.flight.arrived(), path.crawl_span().max(LONGEST_ALONE));
            path.standing.progress.on_sample(now, arrived, span);
        }
        for place in 0..self.paths.len() {
            let path = &self.paths[place];
            if path.standing.crawls() {
                continue;
            }
            let crawls = self.judges_crawling(now, path) || self.begins_slowly(now, path);
            if crawls {
                let path = &mut self.paths[place];
                tracing::debug!(path = %path.id, "the path crawls: it gets trials alone");
                path.standing.crawl = Some(Crawl {
                    next_trial: now,
                    trial: None,
                });
            }
        }
    }

    fn judges_crawling(&self, now: Instant, path: &Path) -> bool {
        let span = path.crawl_span();
        // Without any answer it is silent, which is judged elsewhere.
        let answers = now.since(path.heard_at) <= span;
        let compared = self.comparison(now, path, span);
        compared.is_some_and(|(span, came, best)| answers && crawling::is_crawl(came, span, best))
    }

    /// Tells whether a path brings next to nothing of the first packets that it was given. It may
    /// be long, or as good as dead from the beginning: that shows only after some of its round
    /// trips, and they may have been those of a full queue.
    fn begins_slowly(&self, now: Instant, path: &Path) -> bool {
        let span = crawling::span(Duration::ZERO);
        let compared = || self.comparison(now, path, span);
        let is_new = !path.is_measured() && !path.standing.was_tried();
        is_new && compared().is_some_and(|(span, came, best)| crawling::is_crawl(came, span, best))
    }

    /// Returns for a path on which much is late: the span over which it tells whether the path
    /// crawls beside the best other one, what came within it, and the other's rate.
    fn comparison(
        &self,
        now: Instant,
        path: &Path,
        span: Duration,
    ) -> Option<(Duration, ByteCount, Rate)> {
        let has_much = path.flight.bytes().as_u64() >= crawling::MUCH;
        if path.state != PathState::Active || !has_much || !path.is_late_by(now, span) {
            return None;
        }
        let best = self.best_beside(now, path, span);
        let any_idle = || self.beside(now, path).any(|other| other.flight.is_empty());
        let alone = || {
            let few = ByteCount::new(crawling::FEW_BYTES * 2);
            let time = path.delivery.rate().time_for(few);
            time.unwrap_or_default().min(LONGEST_ALONE)
        };
        let span = crawling::telling_span(best, span, crawling::LEAST_SHARE, any_idle, alone)?;
        let came = path.came_within(now, span)?;
        path.is_late_by(now, span).then_some((span, came, best))
    }

    /// Returns the rate of the best path beside one: what it has brought within a span while it was
    /// late or is not measured, or what it is known to carry.
    fn best_beside(&self, now: Instant, path: &Path, span: Duration) -> Rate {
        let rates = self.beside(now, path).map(|other| {
            let is_known = other.is_measured() && !other.is_late_by(now, span);
            let known = is_known.then(|| other.delivery.rate());
            crawling::rate_beside(known, other.came_within(now, span), span)
        });
        rates.max().unwrap_or(Rate::ZERO)
    }

    /// Returns the paths of other links that may be used and are not suspect.
    fn beside(&self, now: Instant, path: &Path) -> impl Iterator<Item = &Path> {
        let links = (path.link, path.peer_link);
        self.paths.iter().filter(move |other| {
            other.state == PathState::Active
                && (other.link, other.peer_link) != links
                && !other.is_suspect(now)
        })
    }

    /// Handles the answer to a heartbeat with this nonce, if it is the second of a trial. One that
    /// comes soon behind the first ends the suspicion. Returns the path that it is of.
    pub(super) fn on_trial_answered(
        &mut self,
        now: Instant,
        id: PathId,
        nonce: u64,
    ) -> Option<PathId> {
        let place = self.place(id)?;
        let path = &self.paths[place];
        let trial = path.standing.crawl?.trial?;
        let Second::Sent { nonce: sent, size } = trial.second else {
            return None;
        };
        let first = trial.first_answered.filter(|_| nonce == sent)?;
        let best = self.best_beside(now, path, path.crawl_span());
        let longest = crawling::longest_trial(ByteCount::from(size), Duration::ZERO, VARIES, best);
        if now.since(first) <= longest {
            tracing::debug!(path = %path.id, "the path is quick again");
            self.paths[place].standing = PathStanding::well();
        } else {
            let pause = crawling::pause_after_trial(ByteCount::from(size), best);
            self.paths[place].standing.crawl = Some(Crawl {
                next_trial: trial.asked + pause,
                trial: None,
            });
        }
        Some(id)
    }
}

impl Path {
    fn crawl_span(&self) -> Duration {
        crawling::span(self.rtt.min().unwrap_or_default())
    }

    fn is_measured(&self) -> bool {
        self.flight.arrived().as_u64() >= crawling::MEASURED_AFTER
    }

    fn came_within(&self, now: Instant, span: Duration) -> Option<ByteCount> {
        let progress = &self.standing.progress;
        progress.came_within(now, self.flight.arrived(), span)
    }

    /// Tells whether the oldest packet in flight has been there for longer than a span.
    fn is_late_by(&self, now: Instant, span: Duration) -> bool {
        let oldest = self.flight.oldest_sent();
        oldest.is_some_and(|at| now.since(at) > span)
    }
}

/// Paths are judged once in so long: acknowledgements may come every few microseconds.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// The measured rate sinks while a path stands still, and would excuse that for ever longer.
const LONGEST_ALONE: Duration = Duration::from_millis(800);
/// Variation of the time between two packets.
const VARIES: Duration = Duration::from_millis(15);

#[cfg(test)]
mod tests;
