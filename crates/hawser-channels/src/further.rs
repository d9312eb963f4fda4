//! Channels that a gateway opens: from those of its links to which the client opened none.
//!
//! Source: BATCP §3.1, in which the called host connects from its further interfaces.

mod pair;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hawser_session::{LostSegment, Side};
use hawser_types::link::Link;
use hawser_types::{ChannelId, Instant, LinkIndex};

use self::pair::PairState;
pub use self::pair::{Failures, NoJoin};
use crate::Allowance;

/// Plan for the channels of one session that its gateway opens: one for each pair of a link of the
/// gateway and an address of the client.
///
/// The client names no address: connections go to the source addresses of channels that the client
/// opened. A client could misuse them to knock at another host's port, so they are few: one at a
/// time for each pair, an [`Allowance`] for all pairs, and no more where no join ever followed.
///
/// Report how an attempt ended, call [`FurtherChannels::update`] after that and after every change,
/// drain [`FurtherChannels::poll_action`] to `None`, and wait for
/// [`FurtherChannels::poll_timeout`].
#[derive(Debug, Default)]
pub struct FurtherChannels {
    pairs: BTreeMap<Pair, PairState>,
    allowance: Allowance,
    /// No attempt before this time, because the allowance is used up.
    not_before: Instant,
    drops: BTreeSet<ChannelId>,
}

/// Both ends of a possible connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The gateway's link.
    pub link: LinkIndex,
    /// The client's address.
    pub remote: IpAddr,
}

/// State of a session and of its gateway's machine.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Links on which channels may be opened, all usable now.
    pub links: &'a [Link],
    /// Live TCP channels of the session.
    pub channels: &'a [ChannelEnds],
    /// This machine's addresses to which paths of the session's association lead.
    pub associated: &'a BTreeSet<IpAddr>,
}

/// Both ends of a TCP channel of the session, at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelEnds {
    /// Number of the channel.
    pub id: ChannelId,
    /// The side that connected.
    pub begun_by: Side,
    /// The gateway's address.
    pub local: IpAddr,
    /// The client's address.
    pub remote: IpAddr,
}

/// Action for the owner of a [`FurtherChannels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FurtherAction {
    /// Connect, invite the client to join, and report the outcome.
    Attempt {
        /// Both ends of the connection.
        pair: Pair,
        /// Maximum segment size to announce, if a small one is needed.
        max_segment: Option<u16>,
    },
    /// Close this channel: its link, or the link's address, is gone, or another channel replaces
    /// it.
    Drop(ChannelId),
}

impl FurtherChannels {
    /// Updates the plan to the current state. `is_own` recognises this machine's addresses:
    /// connections to them would lead back.
    pub fn update(
        &mut self,
        now: Instant,
        around: &Surroundings<'_>,
        is_own: impl Fn(IpAddr) -> bool,
    ) {
        self.pairs.retain(|_, state| !state.is_forgotten(now));
        for (pair, state) in &mut self.pairs {
            let ends_of = |id: ChannelId| around.channels.iter().filter(move |ends| ends.id == id);
            state.update(now, |id| ends_of(id).next().is_some());
            // A channel stays if it uses a current address of its link.
            self.drops.extend(state.take_stranded(|id| {
                let link = around.links.iter().find(|link| link.index == pair.link);
                link.is_some_and(|link| {
                    ends_of(id).all(|ends| link.addresses.contains(&ends.local))
                })
            }));
        }
        let origins: BTreeSet<IpAddr> = around.of_client().map(|ends| ends.remote).collect();
        for link in around.links.iter().filter(|link| !around.came_to(link)) {
            for remote in &origins {
                if leads_to(link, *remote) && !is_own(*remote) {
                    self.want(now, link.index, *remote);
                }
            }
        }
    }

    /// Records that segments of this size are lost on a channel of this plan. Call it before the
    /// update that finds the channel gone, so that the next channel has smaller segments.
    pub fn handle_lost_segment(&mut self, now: Instant, channel: ChannelId, lost: LostSegment) {
        let mut states = self.pairs.values_mut();
        if let Some(state) = states.find(|state| state.holds(channel)) {
            state.handle_lost_segment(now, lost);
        }
    }

    /// Records that an attempt opened a channel. Returns false if the channel is no longer wanted;
    /// the owner then closes it.
    pub fn handle_joined(&mut self, now: Instant, pair: Pair, channel: ChannelId) -> bool {
        let Some(state) = self.pairs.get_mut(&pair) else {
            return false;
        };
        let is_kept = state.handle_joined(now, channel);
        if is_kept {
            self.drops.extend(state.take_replaced(now));
        }
        is_kept
    }

    /// Records that an attempt failed. Returns the pair's failures, for people.
    pub fn handle_failed(&mut self, now: Instant, pair: Pair, why: NoJoin) -> Failures {
        match self.pairs.get_mut(&pair) {
            Some(state) => state.handle_failed(now, why),
            None => Failures {
                count: 1,
                is_given_up: false,
            },
        }
    }

    /// Returns the next action. Of several due pairs, the one due for longest is first, so that
    /// pairs that always fail do not delay others.
    pub fn poll_action(&mut self, now: Instant) -> Option<FurtherAction> {
        if let Some(channel) = self.drops.pop_first() {
            return Some(FurtherAction::Drop(channel));
        }
        if now < self.not_before {
            return None;
        }
        let waiting = self.pairs.iter_mut();
        let waiting = waiting.filter_map(|(pair, it)| Some((it.next_attempt()?, *pair, it)));
        let (at, pair, state) = waiting.min_by_key(|(at, pair, _)| (*at, *pair))?;
        if now < at {
            return None;
        }
        if let Err(pause) = self.allowance.take(now) {
            self.not_before = now + pause;
            return None;
        }
        let max_segment = state.begin(now);
        Some(FurtherAction::Attempt { pair, max_segment })
    }

    /// Returns the time of the next call to [`FurtherChannels::poll_action`]; `None` means only
    /// after a change.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let times = self.pairs.values().filter_map(PairState::next_attempt);
        Some(times.min()?.max(self.not_before))
    }

    fn want(&mut self, now: Instant, link: LinkIndex, remote: IpAddr) {
        let pair = Pair { link, remote };
        if let Some(state) = self.pairs.get_mut(&pair) {
            state.want();
        } else if self.make_room() {
            self.pairs.insert(pair, PairState::new(now));
        }
    }

    /// Makes room for one more pair if necessary. Returns whether there is room. A pair that failed
    /// without any join is kept for a while, so that it is not retried.
    fn make_room(&mut self) -> bool {
        if self.pairs.len() >= MAX_PAIRS {
            let mut of_no_use = self.pairs.iter().filter(|(_, state)| state.is_of_no_use());
            let pair = of_no_use.next().map(|(pair, _)| *pair);
            pair.and_then(|pair| self.pairs.remove(&pair));
        }
        self.pairs.len() < MAX_PAIRS
    }
}

impl Surroundings<'_> {
    /// Returns the channels that the client opened.
    fn of_client(&self) -> impl Iterator<Item = &ChannelEnds> {
        let channels = self.channels.iter();
        channels.filter(|ends| ends.begun_by == Side::Client)
    }

    /// Whether the client opened a channel or path to this link.
    fn came_to(&self, link: &Link) -> bool {
        let mut came = self.of_client().map(|ends| &ends.local);
        came.any(|local| link.addresses.contains(local))
            || link.addresses.iter().any(|it| self.associated.contains(it))
    }
}

/// Whether connections from `link` to `remote` are possible.
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

/// Limit of pairs of a session: it bounds the attempts for a client that changes its addresses.
const MAX_PAIRS: usize = 16;

#[cfg(test)]
mod tests;
