//! Keeps the TCP channels of one link alive: which ones it lacks, and when to try for them.

mod join_turns;
mod segment_limit;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_session::LostSegment;
use hawser_types::{ChannelId, Instant};
use hawser_wire::ChannelRole;
use smallvec::SmallVec;

pub use join_turns::JoinTurns;
pub use segment_limit::SegmentLimit;

/// The plan for the TCP channels of one link of a client.
///
/// The contract: change once (`update`, `handle_*`), then drain [`ChannelKeeper::poll_action`] to
/// `None`, and wait for [`ChannelKeeper::poll_timeout`], for the end of an attempt, or for a change
/// of the session.
#[derive(Debug)]
pub struct ChannelKeeper {
    express: bool,
    /// Channels by role, the eldest first.
    held: [Vec<ChannelId>; 2],
    /// Channels that are of no use as they are, by role: full segments do not arrive, or the
    /// gateway is elsewhere. Each goes when another takes its place.
    outdated: [Vec<ChannelId>; 2],
    segments: SegmentLimit,
    /// Bulk channels that the link is to have.
    wanted_bulk: usize,
    /// Attempts in progress.
    attempts: usize,
    next_attempt: Instant,
    /// An address of the gateway has worked over this link.
    knows_address: bool,
    /// Failures since the last channel joined.
    failures: u32,
    /// Rounds of attempts since the last channel joined.
    rounds: u32,
    /// Joins that were broken off since the last channel joined.
    turned_away: u32,
    /// Attempts since the last channel joined for which the gateway had granted no number.
    without_grant: u32,
    actions: VecDeque<KeeperAction>,
}

/// What the owner of a [`ChannelKeeper`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperAction {
    /// Begin a connection that is to become a channel, and report its end.
    Attempt {
        /// The role of the channel.
        role: ChannelRole,
        /// Try every address of the gateway, not only the one that worked last.
        search: bool,
        /// The maximum segment size that the connection announces, if it has to be small.
        max_segment: Option<u16>,
    },
    /// Give up the attempts in progress: the link has all its channels. They report nothing.
    AbandonAttempts,
    /// Close this channel: the link needs one less.
    Drop(ChannelId),
    /// Find out whether the gateway breaks off joins because it does not know the session. That is
    /// so if it answers handshakes and none of the session's channels gives a sign of life: on a
    /// silent link they look as before. The session is over then.
    AskGateway,
    /// End the session: no channel is left, and without one no number for another can come.
    EndSession,
}

/// Why an attempt came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// An earlier attempt for the same role is about to be answered: see [`JoinTurns`].
    Overtaken,
    /// The gateway has granted no number for another channel.
    NoGrant,
    /// The connection broke while it joined.
    Broken,
    /// The gateway was not reached or gave no valid answer.
    NoChannel,
}

impl ChannelKeeper {
    /// A keeper that tries at once for what the link lacks.
    ///
    /// `express`: the link is to have an express channel; `first`: the channel that the session
    /// began with, if it goes over this link.
    pub fn new(now: Instant, express: bool, first: Option<ChannelId>) -> Self {
        let role = if express {
            ChannelRole::Express
        } else {
            ChannelRole::Bulk
        };
        let mut held: [Vec<ChannelId>; 2] = Default::default();
        held[role as usize].extend(first);
        Self {
            express,
            held,
            outdated: Default::default(),
            segments: SegmentLimit::default(),
            wanted_bulk: 1,
            attempts: 0,
            next_attempt: now,
            knows_address: first.is_some(),
            failures: 0,
            rounds: 0,
            turned_away: 0,
            without_grant: 0,
            actions: VecDeque::new(),
        }
    }

    /// Takes in which channels live and how many bulk channels the link is to have. To be called
    /// before actions are polled.
    pub fn update(&mut self, is_alive: impl Fn(ChannelId) -> bool, wanted_bulk: usize) {
        for held in self.held.iter_mut().chain(&mut self.outdated) {
            held.retain(|channel| is_alive(*channel));
        }
        self.wanted_bulk = wanted_bulk;
        let bulk = &mut self.held[ChannelRole::Bulk as usize];
        let surplus = bulk.split_off(wanted_bulk.min(bulk.len()));
        self.actions
            .extend(surplus.into_iter().map(KeeperAction::Drop));
    }

    /// Channels, grants or the wish for channels have changed. To be called before `update`.
    pub fn handle_change(&mut self, now: Instant) {
        let missing = self.missing();
        // A grant may have come that an attempt lacked.
        let lacks_grant =
            self.failures == 0 && self.attempts == 0 && missing.first() == Some(&ChannelRole::Bulk);
        if missing.is_empty() || lacks_grant {
            self.next_attempt = now;
        }
    }

    /// Takes in what is known of segments that do not arrive over the link. To be called before
    /// `update`. Returns true where smaller ones are to be used from now on: every channel is
    /// replaced.
    pub fn handle_lost_segment(&mut self, now: Instant, lost: Option<LostSegment>) -> bool {
        let is_news = self.segments.learn(now, lost);
        if is_news {
            self.replace_all(now);
        }
        is_news
    }

    /// The gateway is no longer where the link's channels go to. Each of them goes when another
    /// one stands.
    pub fn handle_address_gone(&mut self, now: Instant) {
        self.knows_address = false;
        self.failures = 0;
        self.replace_all(now);
    }

    fn replace_all(&mut self, now: Instant) {
        for (outdated, held) in self.outdated.iter_mut().zip(&mut self.held) {
            outdated.append(held);
        }
        if std::mem::take(&mut self.attempts) > 0 {
            self.actions.push_back(KeeperAction::AbandonAttempts);
        }
        self.next_attempt = now;
    }

    /// An attempt led to a channel. Returns false if the link does not need it any more; the owner
    /// closes it then.
    pub fn handle_joined(&mut self, now: Instant, role: ChannelRole, channel: ChannelId) -> bool {
        self.attempts = self.attempts.saturating_sub(1);
        if self.attempts == 0 {
            // What is still missing follows at once.
            self.next_attempt = now;
        }
        if !self.wants(role) {
            // A slower attempt succeeded too.
            return false;
        }
        self.held[role as usize].push(channel);
        let outdated = self.outdated[role as usize].drain(..);
        self.actions.extend(outdated.map(KeeperAction::Drop));
        self.knows_address = true;
        self.failures = 0;
        self.rounds = 0;
        self.turned_away = 0;
        self.without_grant = 0;
        true
    }

    /// An attempt led to nothing. `is_cut_off`: the session has no channel at all.
    pub fn handle_failed(&mut self, failure: AttemptFailure, is_cut_off: bool) {
        self.attempts = self.attempts.saturating_sub(1);
        match failure {
            AttemptFailure::Overtaken => {}
            AttemptFailure::NoGrant => {
                self.without_grant += 1;
                if self.without_grant >= MAX_WITHOUT_GRANT && is_cut_off {
                    self.actions.push_back(KeeperAction::EndSession);
                }
            }
            AttemptFailure::Broken | AttemptFailure::NoChannel => {
                self.failures = self.failures.saturating_add(1);
                self.turned_away += u32::from(failure == AttemptFailure::Broken);
            }
        }
        if self.turned_away >= MAX_TURNED_AWAY {
            self.turned_away = 0;
            self.actions.push_back(KeeperAction::AskGateway);
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self, now: Instant) -> Option<KeeperAction> {
        if self.actions.is_empty() {
            self.plan_attempts(now);
        }
        self.actions.pop_front()
    }

    /// Time at which actions are to be polled again; `None`: only after a change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let may_try = !self.is_complete() && self.attempts < self.max_attempts();
        may_try.then_some(self.next_attempt)
    }

    /// True if the link has every channel that it is to have.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }

    /// The channels of the link.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> + '_ {
        let all = self.held.iter().chain(&self.outdated);
        all.flatten().copied()
    }

    /// Failures since the last channel joined.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn plan_attempts(&mut self, now: Instant) {
        let missing = self.missing();
        if missing.is_empty() {
            if std::mem::take(&mut self.attempts) > 0 {
                self.actions.push_back(KeeperAction::AbandonAttempts);
            }
            return;
        }
        if now < self.next_attempt || self.attempts >= self.max_attempts() {
            return;
        }
        self.next_attempt = now + self.pause();
        self.rounds = self.rounds.wrapping_add(1);
        // Now and then another address may work by now.
        let search = !self.knows_address || self.rounds.is_multiple_of(SEARCH_EVERY);
        // A search is for one channel: the first one finds the way for the others.
        let count = if search { 1 } else { missing.len() };
        for role in missing.into_iter().take(count) {
            self.attempts += 1;
            self.actions.push_back(KeeperAction::Attempt {
                role,
                search,
                max_segment: self.segments.limit(now),
            });
        }
    }

    /// Roles of which there are to be more channels.
    fn missing(&self) -> SmallVec<[ChannelRole; 2]> {
        let roles = [ChannelRole::Bulk, ChannelRole::Express];
        let lacks = |role: &ChannelRole| self.wants(*role);
        roles.into_iter().filter(lacks).collect()
    }

    fn wants(&self, role: ChannelRole) -> bool {
        let wanted = match role {
            ChannelRole::Bulk => self.wanted_bulk,
            ChannelRole::Express => usize::from(self.express),
        };
        self.held[role as usize].len() < wanted
    }

    fn max_attempts(&self) -> usize {
        if self.knows_address {
            MAX_ATTEMPTS
        } else {
            MAX_SEARCHES
        }
    }

    /// Pause between attempts: a link that has failed for long is tried less often.
    fn pause(&self) -> Duration {
        match self.failures {
            0..40 => RETRY,
            40..200 => RETRY * 5,
            _ => RETRY * 20,
        }
    }
}

/// Time that a connection of an attempt has to come about.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time that the gateway has to answer a join.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts while a link lacks a channel.
const RETRY: Duration = Duration::from_millis(300);
const MAX_ATTEMPTS: usize = 12;
/// Each of them may be a connection to every address.
const MAX_SEARCHES: usize = 4;
/// Every so many rounds an attempt goes to all addresses rather than to the one that worked.
const SEARCH_EVERY: u32 = 4;
const MAX_TURNED_AWAY: u32 = 3;
const MAX_WITHOUT_GRANT: u32 = 20;

#[cfg(test)]
mod tests;
