//! Keeps every link's channels alive, as the client does.

use std::time::Duration;

use hawser_session::Side;
use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;

use super::{Bond, Stage, Token, place};
use crate::network::End;

/// What one link has, and what is tried for it.
#[derive(Debug)]
pub(super) struct Keeper {
    /// The link has its carrier.
    pub(super) up: bool,
    /// By role, the eldest first.
    pub(super) held: [Vec<ChannelId>; 2],
    /// How many bulk channels there are to be.
    bulk: usize,
    pub(super) attempts: Vec<Attempt>,
    next_attempt: Instant,
    failures: u32,
}

/// A connection that is to become a channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) end: End,
    pub(super) deadline: Instant,
}

impl Keeper {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            up: true,
            held: Default::default(),
            bulk: 1,
            attempts: Vec::new(),
            next_attempt: now,
            failures: 0,
        }
    }

    pub(super) fn attempt(&mut self, end: End) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|attempt| attempt.end == end)
    }

    /// The kinds of channel of which there are to be more.
    fn missing(&self) -> impl Iterator<Item = ChannelRole> + use<> {
        let wants =
            [ChannelRole::Bulk, ChannelRole::Express].map(|role| self.wants(role).then_some(role));
        wants.into_iter().flatten()
    }

    fn wants(&self, role: ChannelRole) -> bool {
        let wanted = match role {
            ChannelRole::Bulk => self.bulk,
            ChannelRole::Express => 1,
        };
        self.held[role as usize].len() < wanted
    }

    /// A link that has failed for long is tried less often.
    fn pause(&self) -> Duration {
        match self.failures {
            0..40 => RETRY,
            40..200 => RETRY * 5,
            _ => RETRY * 20,
        }
    }
}

impl Bond {
    /// Channels or grants have come or gone.
    pub(super) fn on_change(&mut self, link: usize) {
        let now = self.now();
        let client = &self.hosts[place(Side::Client)];
        let keeper = &mut self.keepers[link];
        for held in &mut keeper.held {
            held.retain(|id| client.writers.contains_key(id));
        }
        keeper.bulk = client
            .session
            .wanted_channels(LinkIndex::new(link as u32 + 1));
        let bulk = &mut keeper.held[ChannelRole::Bulk as usize];
        let surplus = bulk.split_off(keeper.bulk.min(bulk.len()));
        for id in surplus {
            if let Some(writer) = self.hosts[place(Side::Client)].writers.get(&id) {
                self.network.close(writer.end, true);
                self.lose_channel(Side::Client, id);
            }
        }
        let keeper = &mut self.keepers[link];
        // A grant may have come that an attempt lacked.
        if keeper.wants(ChannelRole::Bulk) && keeper.failures == 0 && keeper.attempts.is_empty() {
            keeper.next_attempt = now;
        }
        self.look_after(link);
    }

    /// Tries for what a link lacks, if it is time.
    pub(super) fn look_after(&mut self, link: usize) {
        if !self.began || !self.keepers[link].up {
            return;
        }
        let now = self.now();
        self.drop_overdue(link, now);
        let keeper = &mut self.keepers[link];
        if keeper.missing().next().is_none() {
            keeper.next_attempt = now;
            for attempt in std::mem::take(&mut keeper.attempts) {
                self.network.close(attempt.end, true);
                self.abandon(attempt.end);
            }
            return;
        }
        if now >= keeper.next_attempt && keeper.attempts.len() < MAX_ATTEMPTS {
            keeper.next_attempt = now + keeper.pause();
            for role in keeper.missing() {
                let end = self.connect(link, role, Stage::Connecting);
                self.keepers[link].attempts.push(Attempt {
                    end,
                    deadline: now + CONNECT_TIMEOUT,
                });
            }
        }
        let keeper = &self.keepers[link];
        let deadlines = keeper.attempts.iter().map(|attempt| attempt.deadline);
        let next = deadlines
            .chain([keeper.next_attempt])
            .filter(|at| *at > now)
            .min();
        if let Some(at) = next {
            self.network.set_alarm(at, Token::Keeper(link).pack());
        }
    }

    /// Whether another connection of the same kind is already joining.
    pub(super) fn is_overtaken(&self, end: End) -> bool {
        let used = &self.uses[&end.connection];
        let mut others = self.keepers[used.link].attempts.iter();
        others.any(|other| {
            self.uses.get(&other.end.connection).is_some_and(|other| {
                other.role == used.role && matches!(other.stage, Stage::Joining(..))
            })
        })
    }

    /// A connection was answered. Whether it is wanted.
    pub(super) fn joined(&mut self, end: End, id: ChannelId) -> bool {
        let used = &self.uses[&end.connection];
        let (link, role) = (used.link, used.role);
        let keeper = &mut self.keepers[link];
        let tried = keeper.attempts.len();
        keeper.attempts.retain(|attempt| attempt.end != end);
        let wanted = keeper.attempts.len() < tried && keeper.wants(role);
        if wanted {
            keeper.held[role as usize].push(id);
            keeper.failures = 0;
        } else {
            self.network.close(end, true);
            self.with(Side::Client, |session, now| session.give_up_grant(now, id));
        }
        wanted
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

    /// A join has failed.
    pub(super) fn give_up_join(&mut self, end: End) {
        self.abandon(end);
        let link = self.uses[&end.connection].link;
        self.keeper_lost(link, end, true);
    }

    /// An attempt has failed. `counts`: it was not for want of a number.
    pub(super) fn keeper_lost(&mut self, link: usize, end: End, counts: bool) {
        let keeper = &mut self.keepers[link];
        keeper.attempts.retain(|attempt| attempt.end != end);
        keeper.failures = keeper.failures.saturating_add(u32::from(counts));
    }

    fn drop_overdue(&mut self, link: usize, now: Instant) {
        let attempts = self.keepers[link].attempts.clone();
        for attempt in attempts.iter().filter(|attempt| attempt.deadline <= now) {
            self.network.close(attempt.end, true);
            self.give_up_join(attempt.end);
        }
    }
}

/// A fresh connection is tried this often while a link has none.
const RETRY: Duration = Duration::from_millis(300);
const MAX_ATTEMPTS: usize = 12;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
