//! Connections that a gateway begins: from those of its links that none of the client's came to.
//!
//! Source: BATCP §3.1, where a host that is called connects from its further interfaces.

mod pair;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hawser_session::{LostSegment, Side};
use hawser_types::link::Link;
use hawser_types::{ChannelId, Instant, LinkIndex};

use self::pair::PairState;
pub use self::pair::{Failures, NoJoin};
use crate::Allowance;

/// The plan for the channels of one session that its gateway begins: one for each pair of a link of
/// the gateway's and an address of the client's.
///
/// The client names no address: connections go to where channels come from that it began. A client
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
    drops: BTreeSet<ChannelId>,
}

/// Where a connection goes from and to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The gateway's link.
    pub link: LinkIndex,
    /// The client's address.
    pub remote: IpAddr,
}

/// What there is of a session and of its gateway's machine.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The links that channels may begin on, those that can be used now.
    pub links: &'a [Link],
    /// The session's TCP channels that live.
    pub channels: &'a [ChannelEnds],
    /// This machine's addresses that paths of the session's association come to.
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

/// What the owner of a [`FurtherChannels`] has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FurtherAction {
    /// Connect, offer the client to join, and report the end of that.
    Attempt {
        /// From where to where.
        pair: Pair,
        /// The maximum segment size that the connection announces, if it has to be small.
        max_segment: Option<u16>,
    },
    /// Close this channel: its link, or the link's address, is gone, or another channel takes its
    /// place.
    Drop(ChannelId),
}

impl FurtherChannels {
    /// Takes in what there is now. `is_own` tells this machine's addresses: what comes from one of
    /// them leads back to it.
    pub fn update(
        &mut self,
        now: Instant,
        around: &Surroundings<'_>,
        is_own: impl Fn(IpAddr) -> bool,
    ) {
        self.pairs.retain(|_, state| !state.is_forgotten(now));
        for (pair, state) in &mut self.pairs {
            state.update(now, |id| around.lives(id));
            self.drops.extend(state.take_stranded(|id| {
                let link = around.links.iter().find(|link| link.index == pair.link);
                link.is_some_and(|link| around.goes_from(id, link))
            }));
        }
        for link in around.links.iter().filter(|link| !around.came_to(link)) {
            for remote in around.origins() {
                if leads_to(link, remote) && !is_own(remote) {
                    self.want(now, link.index, remote);
                }
            }
        }
    }

    /// Segments of that size do not arrive over a channel that this plan has begun. To be called
    /// before the update that finds the channel gone: the next one has smaller segments.
    pub fn handle_lost_segment(&mut self, now: Instant, channel: ChannelId, lost: LostSegment) {
        let mut states = self.pairs.values_mut();
        if let Some(state) = states.find(|state| state.holds(channel)) {
            state.handle_lost_segment(now, lost);
        }
    }

    /// An attempt led to a channel. Returns false if that has no place any more; the owner closes
    /// it then.
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

    /// An attempt led to nothing. Returns what is known of the pair, for people.
    pub fn handle_failed(&mut self, now: Instant, pair: Pair, why: NoJoin) -> Failures {
        match self.pairs.get_mut(&pair) {
            Some(state) => state.handle_failed(now, why),
            None => Failures {
                count: 1,
                is_given_up: false,
            },
        }
    }

    /// Returns the next thing to do. Of the pairs that are due, the one has its turn that is due
    /// for longest, so that one that always fails takes nothing from another.
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

    /// Returns when [`FurtherChannels::poll_action`] is to be called again; `None`: only after a
    /// change.
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

    /// Makes room for one more pair, if there is none, and returns whether there is some now. Where
    /// nobody has joined is remembered for a while: it is not tried anew.
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
    fn lives(&self, id: ChannelId) -> bool {
        self.channels.iter().any(|ends| ends.id == id)
    }

    /// Whether a channel goes from an address that its link has.
    fn goes_from(&self, id: ChannelId, link: &Link) -> bool {
        let mut ends = self.channels.iter().filter(|ends| ends.id == id);
        ends.all(|ends| link.addresses.contains(&ends.local))
    }

    /// The client's channels: those that it began.
    fn of_client(&self) -> impl Iterator<Item = &ChannelEnds> {
        let channels = self.channels.iter();
        channels.filter(|ends| ends.begun_by == Side::Client)
    }

    /// Where the client's channels come from.
    fn origins(&self) -> BTreeSet<IpAddr> {
        self.of_client().map(|ends| ends.remote).collect()
    }

    /// Whether the client has come to a link by itself.
    fn came_to(&self, link: &Link) -> bool {
        let mut came = self.of_client().map(|ends| &ends.local);
        came.any(|local| link.addresses.contains(local))
            || link.addresses.iter().any(|it| self.associated.contains(it))
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

/// Pairs of a session at one time: a client that changes its addresses has no more than these
/// tried.
const MAX_PAIRS: usize = 16;

#[cfg(test)]
mod tests;
