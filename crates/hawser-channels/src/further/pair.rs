//! One pair of a link of the gateway's and an address of the client's.

use std::time::Duration;

use hawser_session::LostSegment;
use hawser_types::{ChannelId, Instant};
use hawser_wire::ChannelRole;

use crate::keeper::{AttemptFailure, ChannelKeeper, KeeperAction};

/// What is known of a pair, and the plan for its channel.
#[derive(Debug)]
pub(super) struct PairState {
    plan: ChannelKeeper,
    /// Since when no channel is to go from here to there; `None` while one is.
    unwanted_since: Option<Instant>,
    is_trying: bool,
    /// The client has joined there before.
    is_proved: bool,
    /// Attempts that the client did not answer. They end with the first join.
    unanswered: u32,
    /// When the channel joined that lives, or was lost and not noticed yet.
    joined_at: Option<Instant>,
    /// Channels in a row that were lost soon after they had joined.
    short_lives: u32,
    /// Attempts in a row for which nothing was sent.
    unsent: u32,
    /// No attempt before, since channels do not last, or nothing can be sent.
    not_before: Instant,
}

/// Why an attempt led to no channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJoin {
    /// This machine has sent nothing: it has no route, no device, or no port for it.
    NotSent,
    /// The client does not answer, or does not join.
    NoAnswer,
}

/// What became of a pair of which an attempt led to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Attempts in a row that led to nothing.
    pub count: u32,
    /// There will be no other: no join has ever followed one.
    pub is_given_up: bool,
}

impl PairState {
    /// One that is wanted, and to be tried at once.
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

    /// Takes in which channels live. The pair is not wanted any more unless [`PairState::want`]
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

    /// Takes note of a channel that lived for so long. One that never lasts does harm: what it was
    /// given has to be sent again each time.
    fn on_lost(&mut self, now: Instant, lived: Duration) {
        if lived >= SHORT_LIFE {
            self.short_lives = 0;
            return;
        }
        self.not_before = now + rest(self.short_lives).min(LONGEST_REST);
        self.short_lives = self.short_lives.saturating_add(1);
    }

    /// A channel is to go from here to there.
    pub(super) fn want(&mut self) {
        self.unwanted_since = None;
    }

    /// Returns the channels that do not go from the link any more, as `goes_from_link` has it.
    pub(super) fn take_stranded(
        &mut self,
        goes_from_link: impl Fn(ChannelId) -> bool,
    ) -> Vec<ChannelId> {
        let stranded = self.plan.channels().filter(|id| !goes_from_link(*id));
        let stranded: Vec<_> = stranded.collect();
        if !stranded.is_empty() {
            // That is no fault of the path's.
            self.joined_at = None;
        }
        stranded
    }

    /// Whether the channel is this pair's.
    pub(super) fn holds(&self, channel: ChannelId) -> bool {
        self.plan.channels().any(|held| held == channel)
    }

    /// Segments of that size do not arrive there.
    pub(super) fn handle_lost_segment(&mut self, now: Instant, lost: LostSegment) {
        if self.plan.handle_lost_segment(now, Some(lost)) {
            // The next channel has a remedy.
            self.joined_at = None;
        }
    }

    /// An attempt led to a channel. Returns whether that has a place.
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

    /// Returns the channels whose place another one has taken.
    pub(super) fn take_replaced(&mut self, now: Instant) -> Vec<ChannelId> {
        let actions = std::iter::from_fn(|| self.plan.poll_action(now));
        let replaced = actions.filter_map(|action| match action {
            KeeperAction::Drop(channel) => Some(channel),
            _ => None,
        });
        replaced.collect()
    }

    /// An attempt led to nothing.
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

    /// Begins an attempt, which is due. Returns the maximum segment size that it is to announce, if
    /// it has to be small.
    pub(super) fn begin(&mut self, now: Instant) -> Option<u16> {
        self.is_trying = true;
        let actions = std::iter::from_fn(|| self.plan.poll_action(now));
        let sizes = actions.filter_map(|action| match action {
            KeeperAction::Attempt { max_segment, .. } => Some(max_segment),
            _ => None,
        });
        sizes.last().flatten()
    }

    /// When to try next; `None` while there is nothing to try for.
    pub(super) fn next_attempt(&self) -> Option<Instant> {
        let is_wanted = self.unwanted_since.is_none();
        let may_try = is_wanted && !self.is_trying && !self.is_given_up();
        let planned = may_try.then(|| self.plan.poll_timeout()).flatten();
        planned.map(|at| at.max(self.not_before))
    }

    /// Whether nothing would be lost if it were forgotten: there is no channel to go there, and
    /// either the client has joined, or nothing was sent there yet.
    pub(super) fn is_of_no_use(&self) -> bool {
        self.is_idle() && (self.is_proved || self.unanswered == 0)
    }

    /// Whether it has not been wanted for so long that what is known of it does not count any more.
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

/// Returns the pause after `before` others of its kind.
fn rest(before: u32) -> Duration {
    FIRST_REST.saturating_mul(1 << before.min(MAX_DOUBLINGS))
}

/// Attempts from one address to another after which it is left alone, if no join has followed one.
pub(super) const MAX_UNANSWERED: u32 = 12;
/// Time after which a pair that no channel of the client's calls for is forgotten.
pub(super) const REMEMBERED: Duration = Duration::from_secs(3600);
/// A channel that is lost sooner was of little use.
const SHORT_LIFE: Duration = Duration::from_secs(60);
/// First pause after a channel that was lost so soon, or an attempt that sent nothing.
const FIRST_REST: Duration = Duration::from_secs(3);
const LONGEST_REST: Duration = Duration::from_secs(600);
/// A route may come at any time.
const LONGEST_UNSENT: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 10;
