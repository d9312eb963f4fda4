//! Keeps the TCP channels of one link alive: which ones are missing, and when to open them.

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

/// Plan for the TCP channels of one link of a client.
///
/// After each change (`update`, `handle_*`), drain [`ChannelKeeper::poll_action`] to `None`, and
/// wait for [`ChannelKeeper::poll_timeout`], for the end of an attempt, or for a change of the
/// session.
#[derive(Debug)]
pub struct ChannelKeeper {
    express: bool,
    /// Channels by role, the oldest first.
    held: [Vec<ChannelId>; 2],
    /// Channels to replace, by role: full segments are lost, or the gateway has moved. Each is
    /// closed when another one replaces it.
    outdated: [Vec<ChannelId>; 2],
    segments: SegmentLimit,
    /// Number of bulk channels wanted on the link.
    wanted_bulk: usize,
    /// Attempts in progress.
    attempts: usize,
    next_attempt: Instant,
    /// Whether an address of the gateway has worked over this link.
    knows_address: bool,
    /// Failures since the last channel joined.
    failures: u32,
    /// Rounds of attempts since the last channel joined.
    rounds: u32,
    /// Joins broken off since the last channel joined.
    turned_away: u32,
    /// Attempts since the last channel joined for which the gateway had granted no number.
    without_grant: u32,
    actions: VecDeque<KeeperAction>,
}

/// Action for the owner of a [`ChannelKeeper`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeeperAction {
    /// Start a connection that is to become a channel, and report its outcome.
    Attempt {
        /// The role of the channel.
        role: ChannelRole,
        /// Whether to try every address of the gateway, not only the last one that worked.
        search: bool,
        /// Maximum segment size to announce, if a small one is needed.
        max_segment: Option<u16>,
    },
    /// Abandon the attempts, which report nothing: the link has all its channels.
    AbandonAttempts,
    /// Close this channel: the link has one too many.
    Drop(ChannelId),
    /// Find out whether the gateway breaks off joins because it does not know the session. That is
    /// so if it answers handshakes, while none of the session's channels shows a sign of life: on a
    /// silent link the channels look alive. The session is over then.
    AskGateway,
    /// End the session: without any channel no number for another one can arrive.
    EndSession,
}

/// Reason why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// An earlier attempt for the same role is about to be answered: see [`JoinTurns`].
    Overtaken,
    /// The gateway has granted no number for another channel.
    NoGrant,
    /// The connection broke while it joined.
    Broken,
    /// The gateway was unreachable or gave no valid answer.
    NoChannel,
}

impl ChannelKeeper {
    /// Creates a keeper that opens the link's missing channels at once.
    ///
    /// `express`: whether the link has an express channel; `first`: the session's first channel, if
    /// it uses this link.
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

    /// Updates the live channels and the number of wanted bulk channels. Call it before polling
    /// actions.
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

    /// Records a change of channels, grants or wanted channels. Call it before `update`.
    pub fn handle_change(&mut self, now: Instant) {
        let missing = self.missing();
        // A grant may have arrived that an attempt lacked.
        let lacks_grant =
            self.failures == 0 && self.attempts == 0 && missing.first() == Some(&ChannelRole::Bulk);
        if missing.is_empty() || lacks_grant {
            self.next_attempt = now;
        }
    }

    /// Records the size of lost segments on the link. Call it before `update`. Returns true if
    /// smaller segments are used from now on: every channel is replaced then.
    pub fn handle_lost_segment(&mut self, now: Instant, lost: Option<LostSegment>) -> bool {
        let is_news = self.segments.learn(now, lost);
        if is_news {
            self.replace_all(now);
        }
        is_news
    }

    /// Records that the gateway is no longer at the address of the link's channels. Each of them is
    /// closed when another one has joined.
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

    /// Records that an attempt opened a channel. Returns false if the link no longer needs it; the
    /// owner then closes it.
    pub fn handle_joined(&mut self, now: Instant, role: ChannelRole, channel: ChannelId) -> bool {
        self.attempts = self.attempts.saturating_sub(1);
        if self.attempts == 0 {
            // Attempts for the other missing channels follow at once.
            self.next_attempt = now;
        }
        if !self.wants(role) {
            // A slower attempt succeeded as well.
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

    /// Records that an attempt failed. `is_cut_off`: the session has no channel at all.
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

    /// Returns the next action.
    pub fn poll_action(&mut self, now: Instant) -> Option<KeeperAction> {
        if self.actions.is_empty() {
            self.plan_attempts(now);
        }
        self.actions.pop_front()
    }

    /// Returns the time when to poll actions again; `None` means only after a change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let may_try = !self.is_complete() && self.attempts < self.max_attempts();
        may_try.then_some(self.next_attempt)
    }

    /// True if the link has every wanted channel.
    pub fn is_complete(&self) -> bool {
        self.missing().is_empty()
    }

    /// Returns the channels of the link.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> + '_ {
        let all = self.held.iter().chain(&self.outdated);
        all.flatten().copied()
    }

    /// Returns the failures since the last channel joined.
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
        // A link that has failed for long is tried less often.
        let pause = match self.failures {
            0..40 => RETRY,
            40..200 => RETRY * 5,
            _ => RETRY * 20,
        };
        self.next_attempt = now + pause;
        self.rounds = self.rounds.wrapping_add(1);
        // From time to time all addresses are tried, because another one may work by now.
        let search = !self.knows_address || self.rounds.is_multiple_of(SEARCH_EVERY);
        // A search is for one channel: its result helps the others.
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

    /// Returns the roles that need more channels.
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
}

/// Time limit for the connection of an attempt.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for the gateway's answer to a join.
pub const JOIN_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause between attempts while a link lacks a channel.
const RETRY: Duration = Duration::from_millis(300);
const MAX_ATTEMPTS: usize = 12;
/// Each of them may be a connection to every address.
const MAX_SEARCHES: usize = 4;
/// Number of rounds after which an attempt goes to all addresses instead of the one that worked.
const SEARCH_EVERY: u32 = 4;
const MAX_TURNED_AWAY: u32 = 3;
const MAX_WITHOUT_GRANT: u32 = 20;

#[cfg(test)]
mod tests;
