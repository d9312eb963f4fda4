//! Keeps every link's channels alive: carries out what a [`ChannelKeeper`] plans, as the client
//! does.

use hawser_channels::keeper::{
    AttemptFailure, CONNECT_TIMEOUT, ChannelKeeper, JoinTurns, KeeperAction,
};
use hawser_session::Side;
use hawser_types::{ChannelId, Instant, LinkIndex};

use super::{Bond, Stage, Token, place};
use crate::network::End;

/// What one link has, and what is tried for it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The link has its carrier.
    pub(super) up: bool,
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

    /// An attempt joins from now on, until `deadline`.
    pub(super) fn set_deadline(&mut self, end: End, deadline: Instant) {
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.end == end) {
            attempt.deadline = deadline;
        }
    }

    /// Returns the attempt, which is one no more; `None` if it was none.
    fn take_attempt(&mut self, end: End) -> Option<Attempt> {
        let position = self.attempts.iter().position(|it| it.end == end)?;
        Some(self.attempts.remove(position))
    }
}

impl Bond {
    /// Channels or grants have come or gone.
    pub(super) fn on_change(&mut self, link: usize) {
        let now = self.now();
        self.keepers[link].plan.handle_change(now);
        self.look_after(link);
    }

    /// Does what the plan of a link asks for now.
    pub(super) fn look_after(&mut self, link: usize) {
        if !self.began || !self.keepers[link].up {
            return;
        }
        let now = self.now();
        self.drop_overdue(link, now);
        while let Some(action) = self.next_action(link, now) {
            match action {
                KeeperAction::Attempt { role, .. } => {
                    let end = self.connect(link, role, Stage::Connecting);
                    self.keepers[link].attempts.push(Attempt {
                        end,
                        began: now,
                        deadline: now + CONNECT_TIMEOUT,
                    });
                }
                KeeperAction::AbandonAttempts => {
                    for attempt in std::mem::take(&mut self.keepers[link].attempts) {
                        self.network.close(attempt.end, true);
                        self.abandon(attempt.end);
                    }
                }
                KeeperAction::Drop(id) => {
                    if let Some(writer) = self.hosts[place(Side::Client)].writers.get(&id) {
                        self.network.close(writer.end, true);
                        self.lose_channel(Side::Client, id);
                    }
                }
                // The simulated gateway forgets no session, and no other session is begun here.
                KeeperAction::AskGateway | KeeperAction::EndSession => {}
            }
        }
        let keeper = &self.keepers[link];
        let deadlines = keeper.attempts.iter().map(|attempt| attempt.deadline);
        let next = deadlines.chain(keeper.plan.poll_timeout());
        if let Some(at) = next.filter(|at| *at > now).min() {
            self.network.set_alarm(at, Token::Keeper(link).pack());
        }
    }

    fn next_action(&mut self, link: usize, now: Instant) -> Option<KeeperAction> {
        let client = &self.hosts[place(Side::Client)];
        let wanted = client
            .session
            .wanted_channels(LinkIndex::new(link as u32 + 1));
        let plan = &mut self.keepers[link].plan;
        plan.update(|id| client.writers.contains_key(&id), wanted);
        plan.poll_action(now)
    }

    /// A connection that is to become a channel stands. Returns the number that it joins with.
    pub(super) fn take_turn(&mut self, end: End) -> Result<ChannelId, AttemptFailure> {
        let now = self.now();
        let used = &self.uses[&end.connection];
        let (link, role) = (used.link, used.role);
        let keeper = &mut self.keepers[link];
        let attempt = keeper.attempts.iter().find(|attempt| attempt.end == end);
        let took = attempt.map_or_else(Default::default, |it| now.since(it.began));
        if !keeper.turns.take(now, role, took) {
            return Err(AttemptFailure::Overtaken);
        }
        let granted = self.hosts[place(Side::Client)].session.take_grant();
        granted.ok_or_else(|| {
            self.keepers[link].turns.give_back(role);
            AttemptFailure::NoGrant
        })
    }

    /// A connection was answered. Returns true if it is wanted.
    pub(super) fn joined(&mut self, end: End, id: ChannelId) -> bool {
        let now = self.now();
        let used = &self.uses[&end.connection];
        let (link, role) = (used.link, used.role);
        let keeper = &mut self.keepers[link];
        let is_attempt = keeper.take_attempt(end).is_some();
        if is_attempt {
            keeper.turns.give_back(role);
        }
        let is_wanted = is_attempt && keeper.plan.handle_joined(now, role, id);
        if !is_wanted {
            self.network.close(end, true);
            self.with(Side::Client, |session, now| session.give_up_grant(now, id));
            self.look_after(link);
        }
        is_wanted
    }

    /// A connection that was to become a channel will not. What may have become one at the gateway
    /// already is given up there too.
    pub(super) fn abandon(&mut self, end: End) {
        let stage = self.uses.get(&end.connection).map(|used| used.stage);
        self.set_stage(end, Stage::Over);
        if let Some(Stage::Joining(id, _)) = stage {
            self.with(Side::Client, |session, now| session.give_up_grant(now, id));
        }
    }

    /// The gateway has broken off a join.
    pub(super) fn give_up_join(&mut self, end: End) {
        let link = self.uses[&end.connection].link;
        self.fail_attempt(link, end, AttemptFailure::Broken);
        self.look_after(link);
    }

    /// An attempt has failed.
    pub(super) fn fail_attempt(&mut self, link: usize, end: End, failure: AttemptFailure) {
        let used = &self.uses[&end.connection];
        let (role, is_joining) = (used.role, matches!(used.stage, Stage::Joining(..)));
        self.abandon(end);
        let is_cut_off = self.hosts[place(Side::Client)].writers.is_empty();
        let keeper = &mut self.keepers[link];
        if keeper.take_attempt(end).is_some() {
            keeper.plan.handle_failed(failure, is_cut_off);
            if is_joining {
                keeper.turns.give_back(role);
            }
        }
    }

    fn drop_overdue(&mut self, link: usize, now: Instant) {
        let attempts = self.keepers[link].attempts.clone();
        for attempt in attempts.iter().filter(|attempt| attempt.deadline <= now) {
            self.network.close(attempt.end, true);
            self.fail_attempt(link, attempt.end, AttemptFailure::NoChannel);
        }
    }
}
