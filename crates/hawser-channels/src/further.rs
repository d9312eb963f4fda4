//! Connections that a gateway begins: from those of its links that none of the client's came to.
//!
//! Source: BATCP §3.1, where a host that is called connects from its further interfaces.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hawser_types::link::Link;
use hawser_types::{ChannelId, Instant, LinkIndex};
use hawser_wire::ChannelRole;

use crate::Allowance;
use crate::keeper::{AttemptFailure, ChannelKeeper, KeeperAction};

/// The plan for the channels of one session that its gateway begins: one for each pair of a link of
/// the gateway's and an address of the client's.
///
/// The client names no address: connections go to where channels of the session come from. A client
/// decides at which port they knock, so they are few: one at a time for each pair, an [`Allowance`]
/// for all of them, and an end where no join has ever followed.
///
/// The contract: tell how an attempt ended, call [`FurtherChannels::update`] after that and after
/// every change, drain [`FurtherChannels::poll_action`] to `None`, and wait for
/// [`FurtherChannels::poll_timeout`].
#[derive(Debug, Default)]
pub struct FurtherChannels {
    pairs: BTreeMap<Pair, PairState>,
    allowance: Allowance,
    /// No attempt before, since the allowance is used up.
    not_before: Instant,
    drops: Vec<ChannelId>,
}

/// Where a connection goes from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The gateway's link.
    pub link: LinkIndex,
    /// The client's address.
    pub remote: IpAddr,
}

/// Both ends of a TCP channel of the session, at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelEnds {
    /// Number of the channel.
    pub id: ChannelId,
    /// The gateway's address.
    pub local: IpAddr,
    /// The client's address.
    pub remote: IpAddr,
}

/// What the owner of a [`FurtherChannels`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FurtherAction {
    /// Connect, offer the client to join, and report the end of that.
    Attempt(Pair),
    /// Close this channel: its link is gone.
    Drop(ChannelId),
}

#[derive(Debug)]
struct PairState {
    plan: ChannelKeeper,
    /// A channel is to go from here to there.
    is_wanted: bool,
    is_trying: bool,
    /// The client has joined there before.
    is_proved: bool,
}

impl FurtherChannels {
    /// Takes in the links that channels may begin on, and the TCP channels that live.
    pub fn update(&mut self, now: Instant, links: &[Link], channels: &[ChannelEnds]) {
        let is_alive = |id: ChannelId| channels.iter().any(|ends| ends.id == id);
        for (pair, state) in &mut self.pairs {
            state.plan.update(is_alive, 1);
            state.is_wanted = false;
            if !links.iter().any(|link| link.index == pair.link) {
                self.drops.extend(state.plan.channels());
            }
        }
        let held: Vec<ChannelId> = self.channels().collect();
        let came_to = |link: &Link| {
            let mut came = channels.iter().filter(|ends| !held.contains(&ends.id));
            came.any(|ends| link.addresses.contains(&ends.local))
        };
        for link in links.iter().filter(|link| !came_to(link)) {
            for ends in channels {
                if leads_to(link, ends.remote) && !is_own(links, ends.remote) {
                    self.want(now, link.index, ends.remote);
                }
            }
        }
    }

    /// An attempt led to a channel. Returns false if that has no place any more; the owner closes
    /// it then.
    pub fn handle_joined(&mut self, now: Instant, pair: Pair, channel: ChannelId) -> bool {
        let Some(state) = self.pairs.get_mut(&pair) else {
            return false;
        };
        state.is_trying = false;
        state.is_proved = true;
        if !state.is_wanted {
            state.plan.handle_failed(AttemptFailure::Overtaken, false);
            return false;
        }
        state.plan.handle_joined(now, ChannelRole::Bulk, channel)
    }

    /// An attempt led to nothing.
    pub fn handle_failed(&mut self, pair: Pair) {
        if let Some(state) = self.pairs.get_mut(&pair) {
            state.is_trying = false;
            state.plan.handle_failed(AttemptFailure::NoChannel, false);
        }
    }

    /// Returns the next thing to do.
    pub fn poll_action(&mut self, now: Instant) -> Option<FurtherAction> {
        if let Some(channel) = self.drops.pop() {
            return Some(FurtherAction::Drop(channel));
        }
        if now < self.not_before {
            return None;
        }
        let mut due = self.pairs.iter_mut().filter(|(_, state)| state.is_due(now));
        let (pair, state) = due.next()?;
        if let Err(pause) = self.allowance.take(now) {
            self.not_before = now + pause;
            return None;
        }
        // A link that is complete is not due, so there is nothing else to do for it.
        while let Some(action) = state.plan.poll_action(now) {
            state.is_trying |= matches!(action, KeeperAction::Attempt { .. });
        }
        Some(FurtherAction::Attempt(*pair))
    }

    /// Returns when [`FurtherChannels::poll_action`] is to be called again; `None`: only after a
    /// change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = self.pairs.values().filter_map(PairState::next_attempt);
        Some(times.min()?.max(self.not_before))
    }

    /// Returns the channels that the gateway has begun and that live.
    pub fn channels(&self) -> impl Iterator<Item = ChannelId> + '_ {
        self.pairs.values().flat_map(|state| state.plan.channels())
    }

    fn want(&mut self, now: Instant, link: LinkIndex, remote: IpAddr) {
        let pair = Pair { link, remote };
        if let Some(state) = self.pairs.get_mut(&pair) {
            state.is_wanted = true;
            return;
        }
        if self.make_room() {
            let state = PairState {
                plan: ChannelKeeper::new(now, false, None),
                is_wanted: true,
                is_trying: false,
                is_proved: false,
            };
            self.pairs.insert(pair, state);
        }
    }

    /// Makes room for one more pair, if there is none, and returns whether there is some now. Where
    /// nobody has joined is remembered: it is not tried anew.
    fn make_room(&mut self) -> bool {
        if self.pairs.len() >= MAX_PAIRS {
            let mut of_no_use = self.pairs.iter().filter(|(_, state)| state.is_over());
            let pair = of_no_use.next().map(|(pair, _)| *pair);
            pair.and_then(|pair| self.pairs.remove(&pair));
        }
        self.pairs.len() < MAX_PAIRS
    }
}

impl PairState {
    /// The client has joined, and is not there any more.
    fn is_over(&self) -> bool {
        let is_idle = !self.is_wanted && !self.is_trying;
        is_idle && self.is_proved && self.plan.channels().next().is_none()
    }

    fn is_due(&self, now: Instant) -> bool {
        self.next_attempt().is_some_and(|at| at <= now)
    }

    /// When to try next; `None` while there is nothing to try for.
    fn next_attempt(&self) -> Option<Instant> {
        let is_given_up = !self.is_proved && self.plan.failures() >= MAX_UNPROVED;
        let may_try = self.is_wanted && !self.is_trying && !is_given_up;
        may_try.then(|| self.plan.poll_timeout()).flatten()
    }
}

/// Whether connections from `link` to `remote` can be made.
fn leads_to(link: &Link, remote: IpAddr) -> bool {
    let is_ordinary = match remote {
        IpAddr::V4(ip) => {
            !(ip.is_loopback() || ip.is_link_local() || ip.is_multicast() || ip.is_unspecified())
        }
        IpAddr::V6(ip) => {
            let is_special = ip.is_loopback() || ip.is_multicast() || ip.is_unspecified();
            !is_special && !ip.is_unicast_link_local()
        }
    };
    is_ordinary && link.source_address(remote).is_some()
}

/// What comes from an address of this machine leads back to it.
fn is_own(links: &[Link], remote: IpAddr) -> bool {
    links.iter().any(|link| link.addresses.contains(&remote))
}

/// Pairs of a session in all: a client that changes its addresses has no more than these tried.
const MAX_PAIRS: usize = 16;
/// Attempts from one address to another after which it is left alone, if no join has followed one.
const MAX_UNPROVED: u32 = 12;

#[cfg(test)]
mod tests;
