//! Standing of a path beside the others.

use std::time::Duration;

use hawser_path::Progress;
use hawser_types::Instant;

/// How a path does beside the others.
#[derive(Debug, Default)]
pub(super) struct PathStanding {
    pub(super) progress: Progress,
    pub(super) crawl: Option<Crawl>,
    was_tried: bool,
}

/// A path crawls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crawl {
    pub(super) next_trial: Instant,
    pub(super) trial: Option<Trial>,
}

/// A pair of heartbeats, the second of them large.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// When the first left.
    pub(super) asked: Instant,
    pub(super) first_answered: Option<Instant>,
    pub(super) second: Second,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Second {
    Due,
    Sent { nonce: u64, size: usize },
}

impl PathStanding {
    /// Of a path that has come through a trial.
    pub(super) fn well() -> Self {
        Self {
            was_tried: true,
            ..Self::default()
        }
    }

    /// Tells whether the path has come through a trial.
    pub(super) fn was_tried(&self) -> bool {
        self.was_tried
    }

    pub(super) fn crawls(&self) -> bool {
        self.crawl.is_some()
    }

    /// Returns when the next trial may leave; `None` unless the path crawls.
    pub(super) fn next_trial(&self) -> Option<Instant> {
        self.crawl.map(|crawl| crawl.next_trial)
    }

    /// Notes that a short heartbeat leaves, which begins a trial if the path crawls.
    pub(super) fn on_first_sent(&mut self, now: Instant) {
        if let Some(crawl) = &mut self.crawl {
            crawl.next_trial = now + TRIAL_REPEATED_AFTER;
            crawl.trial = Some(Trial {
                asked: now,
                first_answered: None,
                second: Second::Due,
            });
        }
    }

    pub(super) fn is_second_due(&self) -> bool {
        let trial = self.crawl.and_then(|crawl| crawl.trial);
        trial.is_some_and(|trial| matches!(trial.second, Second::Due))
    }

    pub(super) fn on_second_sent(&mut self, nonce: u64, size: usize) {
        let trial = self.crawl.as_mut().and_then(|crawl| crawl.trial.as_mut());
        if let Some(trial) = trial {
            trial.second = Second::Sent { nonce, size };
        }
    }

    /// Handles the answer to the heartbeat that left at `asked`.
    pub(super) fn on_first_answered(&mut self, now: Instant, asked: Instant) {
        let trial = self.crawl.as_mut().and_then(|crawl| crawl.trial.as_mut());
        if let Some(trial) = trial.filter(|trial| trial.asked == asked) {
            trial.first_answered = Some(now);
        }
    }
}

/// A trial of which nothing came is repeated after that.
pub(super) const TRIAL_REPEATED_AFTER: Duration = Duration::from_secs(1);
