//! Datagrams beside streams: sent once, over any channel, and handed out as they come.
//!
//! Links take turns in proportion to their rates. Small datagrams go over a link's express channel,
//! and all of them only where the kernel would send more at once. The others wait in a bounded
//! queue, whose oldest goes first when it is full: datagrams lose their worth with age. On its
//! channel a record of datagrams never comes twice in a row while a chunk waits, so that streams
//! are not held up.
//!
//! Datagrams that are to keep their order have a queue of their own and stay on one channel, of the
//! nearest link at first, until it keeps them waiting for long.
//!
//! Source: RFC 9221 (datagrams of a reliable session), DBAS §II.D (weighted packets).

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::SmoothTurns;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::ChannelRole;

use crate::channel::Channel;
use crate::channels::Channels;
use crate::stream::{ArrivedDatagrams, Taken, datagram_cost};
use crate::transports::carries;

/// Datagrams that wait to be sent, and the turns of links.
#[derive(Debug, Default)]
pub(crate) struct Datagrams {
    waiting: VecDeque<Waiting>,
    /// The same, of those that are to keep their order.
    in_order: VecDeque<Waiting>,
    /// Their cost together.
    waiting_cost: usize,
    /// Turns of links; of equals, the highest is next.
    turns: SmoothTurns<Reverse<LinkIndex>>,
    /// The channel that the latest one went to that is to keep its order, and when.
    latest: Option<(ChannelId, Instant)>,
    /// Links of the latest choice. Kept, so that the next one allocates nothing.
    lanes: Vec<Lane>,
    /// Cost of those that came and were not taken, over all streams.
    held: usize,
    /// Most that those may cost.
    most_held: usize,
}

/// How datagrams of a stream go over several links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Links take turns.
    InTurns,
    /// Over one channel, so that few overtake others.
    InOrder,
}

/// A datagram that waits to be sent.
#[derive(Debug)]
struct Waiting {
    stream: StreamId,
    payload: Bytes,
    since: Instant,
}

/// A link in the choice of a channel.
#[derive(Clone, Copy, Debug)]
struct Lane {
    link: LinkIndex,
    /// Its best channel.
    channel: ChannelId,
    /// Rank of that channel, the best first: of the other role, and the bytes it has already.
    rank: (bool, usize),
    /// Round trip of that channel.
    rtt: Duration,
    /// Its part of all turns.
    weight: i128,
}

impl Datagrams {
    /// Queues of a session that has `share` bytes for what comes.
    pub(crate) fn new(share: ByteCount) -> Self {
        Self {
            most_held: most_held(share),
            ..Self::default()
        }
    }

    /// The session has `share` bytes for what comes from now on.
    pub(crate) fn set_share(&mut self, share: ByteCount) {
        self.most_held = most_held(share);
    }

    /// Queues a datagram.
    pub(crate) fn push(&mut self, now: Instant, stream: StreamId, payload: Bytes, spread: Spread) {
        self.waiting_cost += datagram_cost(payload.len());
        let queue = match spread {
            Spread::InTurns => &mut self.waiting,
            Spread::InOrder => &mut self.in_order,
        };
        queue.push_back(Waiting {
            stream,
            payload,
            since: now,
        });
    }

    /// Drops the oldest datagrams while too many wait. Returns how many.
    pub(crate) fn drop_oldest(&mut self) -> u64 {
        let mut dropped = 0;
        while self.waiting_cost > MAX_WAITING
            || self.waiting.len() + self.in_order.len() > MAX_COUNT_WAITING
        {
            let since = |queue: &VecDeque<Waiting>| queue.front().map(|it| it.since);
            let is_in_turns = match (since(&self.waiting), since(&self.in_order)) {
                (Some(in_turns), Some(in_order)) => in_turns <= in_order,
                (in_turns, _) => in_turns.is_some(),
            };
            let spread = if is_in_turns {
                Spread::InTurns
            } else {
                Spread::InOrder
            };
            self.take_oldest(spread);
            dropped += 1;
        }
        dropped
    }

    /// True if no datagram waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_order.is_empty()
    }

    /// Gives waiting datagrams to channels that would send them at once. `association`: the one
    /// that datagrams go over.
    pub(crate) fn place(
        &mut self,
        now: Instant,
        channels: &mut Channels,
        association: Option<ChannelId>,
    ) {
        while let Some(next) = self.in_order.front() {
            let (size, since) = (next.payload.len(), next.since);
            let Some(id) = self.channel_in_order(now, size, since, channels, association) else {
                break;
            };
            self.latest = Some((id, now));
            self.hand_over(Spread::InOrder, id, channels);
        }
        while let Some(next) = self.waiting.front() {
            let size = next.payload.len();
            fill_lanes(now, size, channels, association, &mut self.lanes);
            let Some(id) = self.take_turn() else {
                return;
            };
            self.hand_over(Spread::InTurns, id, channels);
        }
    }

    /// Gives the oldest datagram to a channel.
    fn hand_over(&mut self, spread: Spread, id: ChannelId, channels: &mut Channels) {
        if let (Some(channel), Some(next)) = (channels.get_mut(id), self.take_oldest(spread)) {
            channel.datagrams_mut().push(next.stream, next.payload);
            channels.wake(id);
        }
    }

    /// Takes in a datagram that came for a stream, as far as there is room.
    pub(crate) fn on_arrival(&mut self, payload: &[u8], arrived: &mut ArrivedDatagrams) -> Taken {
        let taken = arrived.push(payload, self.most_held.saturating_sub(self.held));
        self.held = self.held + taken.cost() - taken.freed();
        taken
    }

    /// Notes that datagrams of this cost were taken by their reader, or dropped with their stream.
    pub(crate) fn on_taken(&mut self, cost: usize) {
        self.held -= cost;
    }

    /// Returns what the datagrams cost that wait to be sent.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting_cost
    }

    /// Returns what the datagrams cost that came and were not taken.
    pub(crate) fn held(&self) -> ByteCount {
        ByteCount::from(self.held)
    }

    /// Returns the memory of all datagrams.
    pub(crate) fn memory(&self) -> usize {
        self.waiting_cost + self.held
    }

    /// Returns the channel of the link whose turn it is, which ends that turn.
    fn take_turn(&mut self) -> Option<ChannelId> {
        let weights = self
            .lanes
            .iter()
            .map(|lane| (Reverse(lane.link), lane.weight));
        let Reverse(link) = self.turns.take(weights)?;
        let lane = self.lanes.iter().find(|lane| lane.link == link)?;
        Some(lane.channel)
    }

    /// Returns the channel for the next datagram that is to keep its order: that of the one before,
    /// else one of the nearest link. `None`: it waits. It has waited since `since`.
    fn channel_in_order(
        &mut self,
        now: Instant,
        size: usize,
        since: Instant,
        channels: &Channels,
        association: Option<ChannelId>,
    ) -> Option<ChannelId> {
        let latest = self.latest.filter(|(_, at)| now.since(*at) < REST);
        let before = latest.and_then(|(id, _)| channels.get(id));
        let before = before.filter(|it| it.is_sound(now) && carries(it, association));
        if let Some(before) = before {
            if before.takes_datagrams(now) {
                return Some(before.id());
            }
            if now.since(since) < PATIENCE {
                return None;
            }
        }
        fill_lanes(now, size, channels, association, &mut self.lanes);
        let nearest = self.lanes.iter().min_by_key(|lane| lane.rtt)?;
        Some(nearest.channel)
    }

    fn take_oldest(&mut self, spread: Spread) -> Option<Waiting> {
        let oldest = match spread {
            Spread::InTurns => self.waiting.pop_front(),
            Spread::InOrder => self.in_order.pop_front(),
        }?;
        self.waiting_cost -= datagram_cost(oldest.payload.len());
        Some(oldest)
    }
}

/// Enters the best channel of each link that has one for a datagram of that size.
fn fill_lanes(
    now: Instant,
    size: usize,
    channels: &Channels,
    association: Option<ChannelId>,
    lanes: &mut Vec<Lane>,
) {
    lanes.clear();
    let role = match size {
        ..=SMALL => ChannelRole::Express,
        _ => ChannelRole::Bulk,
    };
    let preferred = |channel: &Channel| channel.standing().rules().is_preferred();
    let only_preferred = channels.iter().any(|c| preferred(c) && c.is_sound(now));
    let open = channels.iter().filter(|channel| {
        let by_wish = preferred(channel) || !only_preferred || association.is_some();
        carries(channel, association) && by_wish && channel.takes_datagrams(now)
    });
    for channel in open {
        let rank = (channel.role() != role, channel.datagrams().bytes());
        let rtt = channel.path().rtt();
        let lane = Lane {
            link: channel.link(),
            channel: channel.id(),
            rank,
            // Zero while unknown.
            rtt: if rtt.is_zero() { Duration::MAX } else { rtt },
            weight: 0,
        };
        match lanes.iter_mut().find(|other| other.link == lane.link) {
            Some(other) if lane.rank < other.rank => *other = lane,
            Some(_) => {}
            None => lanes.push(lane),
        }
    }
    weigh(lanes, channels);
}

/// Enters the rates of links; a rate that is not known counts as the least of the others.
fn weigh(lanes: &mut [Lane], channels: &Channels) {
    for channel in channels.iter() {
        let link = channel.link();
        if let Some(lane) = lanes.iter_mut().find(|lane| lane.link == link) {
            lane.weight += i128::from(channel.path().rate().bytes_per_second());
        }
    }
    let known = lanes.iter().map(|lane| lane.weight);
    let least = known.filter(|weight| *weight > 0).min().unwrap_or(1);
    for lane in lanes.iter_mut().filter(|lane| lane.weight == 0) {
        lane.weight = least;
    }
}

/// Part of a session's share of memory for datagrams that came and were not taken.
fn most_held(share: ByteCount) -> usize {
    let part = usize::try_from(share.as_u64() / 8).unwrap_or(MAX_HELD);
    part.clamp(MIN_HELD, MAX_HELD)
}

/// A larger datagram does not fit a packet, and is not for express channels.
const SMALL: usize = 1500;
/// A datagram that is to keep its order waits for so long until its link takes it.
const PATIENCE: Duration = Duration::from_millis(50);
/// After such a rest nothing is left to overtake.
const REST: Duration = Duration::from_secs(1);
/// A quarter of a second at 8 Mbit/s: more would only be late.
const MAX_WAITING: usize = 256 * 1024;
/// Datagrams that wait, at most.
const MAX_COUNT_WAITING: usize = 4096;
/// Cost of what waits for the readers of all streams, at most and at least.
const MAX_HELD: usize = 8 << 20;
const MIN_HELD: usize = 256 << 10;
