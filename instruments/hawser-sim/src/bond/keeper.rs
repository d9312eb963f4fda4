//! One link's channels at the client: the plan of a [`ChannelKeeper`], and the attempts for it.

use hawser_channels::keeper::{
    AttemptFailure, CONNECT_TIMEOUT, ChannelKeeper, JOIN_TIMEOUT, JoinTurns, KeeperAction,
};
use hawser_session::Session;
use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;

use super::host::Host;
use crate::network::End;

/// What one link has, and what is tried for it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The link has its carrier.
    up: bool,
    plan: ChannelKeeper,
    turns: JoinTurns,
    attempts: Vec<Attempt>,
}

/// A connection that is to become a channel.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    end: End,
    began: Instant,
    deadline: Instant,
}

impl Keeper {
    /// `first`: the channel that the session began with, if it goes over this link.
    pub(super) fn new(now: Instant, first: Option<ChannelId>) -> Self {
        Self {
            up: true,
            plan: ChannelKeeper::new(now, true, first),
            turns: JoinTurns::default(),
            attempts: Vec::new(),
        }
    }

    /// One whose link has lost its carrier or its address: a link that comes back begins anew.
    pub(super) fn down(now: Instant) -> Self {
        Self {
            up: false,
            ..Self::new(now, None)
        }
    }

    pub(super) const fn is_up(&self) -> bool {
        self.up
    }

    /// The link has its carrier again, or another address.
    pub(super) const fn set_up(&mut self) {
        self.up = true;
    }

    /// Channels or grants have come or gone.
    pub(super) fn on_change(&mut self, now: Instant) {
        self.plan.handle_change(now);
    }

    /// What the plan asks for now, over this link of the client.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        client: &Host,
        link: LinkIndex,
    ) -> Option<KeeperAction> {
        let wanted = client.session().wanted_channels(link);
        let lost = client.session().lost_segment(link);
        self.plan.handle_lost_segment(now, lost);
        self.plan.update(|id| client.writer(id).is_some(), wanted);
        self.plan.poll_action(now)
    }

    /// When to ask the plan again, at the latest.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let deadlines = self.attempts.iter().map(|attempt| attempt.deadline);
        let next = deadlines.chain(self.plan.poll_timeout());
        next.filter(|at| *at > now).min()
    }

    /// A connection has begun that is to become a channel.
    pub(super) fn on_attempt(&mut self, now: Instant, end: End) {
        self.attempts.push(Attempt {
            end,
            began: now,
            deadline: now + CONNECT_TIMEOUT,
        });
    }

    /// Gives up all attempts, and returns them.
    pub(super) fn take_attempts(&mut self) -> Vec<End> {
        let attempts = std::mem::take(&mut self.attempts);
        attempts.into_iter().map(|attempt| attempt.end).collect()
    }

    /// The attempts that have taken too long.
    pub(super) fn overdue(&self, now: Instant) -> Vec<End> {
        let overdue = self.attempts.iter().filter(|it| it.deadline <= now);
        overdue.map(|attempt| attempt.end).collect()
    }

    /// An attempt is connected. Returns the number that it joins with.
    pub(super) fn take_turn(
        &mut self,
        now: Instant,
        session: &mut Session,
        end: End,
        role: ChannelRole,
    ) -> Result<ChannelId, AttemptFailure> {
        let attempt = self.attempts.iter().find(|attempt| attempt.end == end);
        let took = attempt.map_or_else(Default::default, |it| now.since(it.began));
        if !self.turns.take(now, role, took) {
            return Err(AttemptFailure::Overtaken);
        }
        session.take_grant().ok_or_else(|| {
            self.turns.give_back(role);
            AttemptFailure::NoGrant
        })
    }

    /// An attempt joins from now on.
    pub(super) fn on_joining(&mut self, now: Instant, end: End) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.end == end) {
            attempt.deadline = now + JOIN_TIMEOUT;
        }
    }

    /// An attempt was let in. Returns true if it is wanted.
    pub(super) fn on_joined(
        &mut self,
        now: Instant,
        end: End,
        role: ChannelRole,
        id: ChannelId,
    ) -> bool {
        let is_attempt = self.take_attempt(end);
        if is_attempt {
            self.turns.give_back(role);
        }
        is_attempt && self.plan.handle_joined(now, role, id)
    }

    /// An attempt has failed. `joining`: the role of one that was joining. `is_cut_off`: the
    /// session has no channel at all.
    pub(super) fn on_failed(
        &mut self,
        end: End,
        joining: Option<ChannelRole>,
        failure: AttemptFailure,
        is_cut_off: bool,
    ) {
        if self.take_attempt(end) {
            self.plan.handle_failed(failure, is_cut_off);
            if let Some(role) = joining {
                self.turns.give_back(role);
            }
        }
    }

    /// Forgets an attempt. Returns false if it was none.
    fn take_attempt(&mut self, end: End) -> bool {
        let position = self.attempts.iter().position(|it| it.end == end);
        position.is_some_and(|position| {
            self.attempts.remove(position);
            true
        })
    }
}
