//! State of one pair of a gateway's link and a client's address.

use std::time::Duration;

use hawser_session::LostSegment;
use hawser_types::{ChannelId, Instant};
use hawser_wire::ChannelRole;

use crate::keeper::{AttemptFailure, ChannelKeeper, KeeperAction};

/// State of a pair, and the plan for its channel.
#[derive(Debug)]
pub(super) struct PairState {
    plan: ChannelKeeper,
    /// Time since when no channel is wanted; `None` while one is.
    unwanted_since: Option<Instant>,
    is_trying: bool,
    /// Whether the client has ever joined over this pair.
    is_proved: bool,
    /// Attempts without an answer of the client. The first join resets them.
    unanswered: u32,
    /// Time of the join of the current channel, whose loss may not be noticed yet.
    joined_at: Option<Instant>,
    /// Consecutive channels that were lost soon after their join.
    short_lives: u32,
    /// Consecutive attempts for which nothing was sent.
    unsent: u32,
    /// No attempt before this time, because channels are short-lived or nothing can be sent.
    not_before: Instant,
}

/// Reason why an attempt opened no channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJoin {
    /// This machine sent nothing: it has no route, device or port for the connection.
    NotSent,
    /// The client does not answer, or does not join.
    NoAnswer,
}

/// Failures of a pair after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Consecutive failed attempts.
    pub count: u32,
    /// Whether no attempt will follow, because no join ever followed one.
    pub is_given_up: bool,
}

impl PairState {
    /// Creates a wanted pair that is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            plan: ChannelKeeper::new(now, false, None),
            unwanted_since: None,
            is_trying: false,
            is_proved: false,
            unanswered: 0,
            joined_at: None,
            short_lives: 0,
            unsent: 0,
            not_before: now,
        }
    }

    /// Updates the live channels, and marks the pair as unwanted unless [`PairState::want`]
    /// follows.
    pub(super) fn update(&mut self, now: Instant, is_alive: impl Fn(ChannelId) -> bool) {
        self.unwanted_since.get_or_insert(now);
        self.plan.update(is_alive, 1);
        if self.plan.channels().next().is_none()
            && let Some(joined_at) = self.joined_at.take()
        {
            self.on_lost(now, now.since(joined_at));
        }
    }

    /// Records the loss of a channel after this lifetime. Short-lived channels do harm: their data
    /// must be retransmitted each time.
    fn on_lost(&mut self, now: Instant, lived: Duration) {
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            return;
        }
        self.not_before = now + rest(self.short_lives).min(LONGEST_REST);
        self.short_lives = self.short_lives.saturating_add(1);
    }

    /// Marks the pair as wanted.
    pub(super) fn want(&mut self) {
        self.unwanted_since = None;
    }

    /// Returns the channels that no longer use the link, according to `goes_from_link`.
    pub(super) fn take_stranded(
        &mut self,
        goes_from_link: impl Fn(ChannelId) -> bool,
    ) -> Vec<ChannelId> {
        let stranded = self.plan.channels().filter(|id| !goes_from_link(*id));
        let stranded: Vec<_> = stranded.collect();
        if !stranded.is_empty() {
            // The path is not at fault.
            self.joined_at = None;
        }
        stranded
    }

    /// Whether the channel belongs to this pair.
    pub(super) fn holds(&self, channel: ChannelId) -> bool {
        self.plan.channels().any(|held| held == channel)
    }

    /// Records that segments of this size are lost.
    pub(super) fn handle_lost_segment(&mut self, now: Instant, lost: LostSegment) {
        if self.plan.handle_lost_segment(now, Some(lost)) {
            // The next channel will use smaller segments.
            self.joined_at = None;
        }
    }

    /// Records that an attempt opened a channel. Returns whether it is wanted.
    pub(super) fn handle_joined(&mut self, now: Instant, channel: ChannelId) -> bool {
        self.is_trying = false;
        self.is_proved = true;
        self.unanswered = 0;
        self.unsent = 0;
        if self.unwanted_since.is_some() {
            self.plan.handle_failed(AttemptFailure::Overtaken, false);
            return false;
        }
        self.joined_at = Some(now);
        self.plan.handle_joined(now, ChannelRole::Bulk, channel)
    }

    /// Returns the channels that another one has replaced.
    pub(super) fn take_replaced(&mut self, now: Instant) -> Vec<ChannelId> {
        let actions = std::iter::from_fn(|| self.plan.poll_action(now));
        let replaced = actions.filter_map(|action| match action {
            KeeperAction::Drop(channel) => Some(channel),
            _ => None,
        });
        replaced.collect()
    }

    /// Records that an attempt failed.
    pub(super) fn handle_failed(&mut self, now: Instant, why: NoJoin) -> Failures {
        self.is_trying = false;
        match why {
            NoJoin::NotSent => {
                self.not_before = now + rest(self.unsent).min(LONGEST_UNSENT);
                self.unsent = self.unsent.saturating_add(1);
            }
            NoJoin::NoAnswer => {
                self.unsent = 0;
                self.unanswered = self.unanswered.saturating_add(1);
            }
        }
        self.plan.handle_failed(AttemptFailure::NoChannel, false);
        Failures {
            count: self.plan.failures(),
            is_given_up: self.is_given_up(),
        }
    }

    /// Starts a due attempt. Returns the maximum segment size to announce, if a small one is
    /// needed.
    pub(super) fn begin(&mut self, now: Instant) -> Option<u16> {
        self.is_trying = true;
        let actions = std::iter::from_fn(|| self.plan.poll_action(now));
        let sizes = actions.filter_map(|action| match action {
            KeeperAction::Attempt { max_segment, .. } => Some(max_segment),
            _ => None,
        });
        sizes.last().flatten()
    }

    /// Returns the time of the next attempt; `None` if no attempt is wanted.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        let is_wanted = self.unwanted_since.is_none();
        let may_try = is_wanted && !self.is_trying && !self.is_given_up();
        let planned = may_try.then(|| self.plan.poll_timeout()).flatten();
        planned.map(|at| at.max(self.not_before))
    }

    /// Whether the pair can be forgotten without loss: it has no channel and wants none, and either
    /// the client has joined, or no attempt was sent yet.
    pub(super) fn is_of_no_use(&self) -> bool {
        self.is_idle() && (self.is_proved || self.unanswered == 0)
    }

    /// Whether the pair was unwanted for so long that its state is outdated.
    pub(super) fn is_forgotten(&self, now: Instant) -> bool {
        let unwanted_since = self.unwanted_since;
        self.is_idle() && unwanted_since.is_some_and(|since| now.since(since) >= REMEMBERED)
    }

    fn is_idle(&self) -> bool {
        let has_channel = self.plan.channels().next().is_some();
        self.unwanted_since.is_some() && !self.is_trying && !has_channel
    }

    fn is_given_up(&self) -> bool {
        !self.is_proved && self.unanswered >= MAX_UNANSWERED
    }
}

/// Returns the pause after `before` earlier pauses of its kind.
fn rest(before: u32) -> Duration {
    FIRST_REST.saturating_mul(1 << before.min(MAX_DOUBLINGS))
}

/// Limit of attempts for a pair without any join.
pub(super) const MAX_UNANSWERED: u32 = 12;
/// Time after which a pair that no channel of the client calls for is forgotten.
pub(super) const REMEMBERED: Duration = Duration::from_secs(3600);
/// A channel that is lost sooner counts as short-lived.
const SHORT_LIFE: Duration = Duration::from_secs(60);
/// First pause after a short-lived channel, or after an attempt that sent nothing.
const FIRST_REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// Bounded because a route may appear at any time.
const LONGEST_UNSENT: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 10;
