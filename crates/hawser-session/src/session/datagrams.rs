//! Datagrams beside streams: sent once, over any channel, and handed out as they come.
//!
//! Links take turns in proportion to their rates. What is small goes over a link's express channel,
//! and everything only where the kernel would send more at once. What can't be sent waits in a bounded queue, whose oldest
//! goes first when it is full: what a datagram says gets old. On its channel a record of datagrams never comes
//! twice in a row while a chunk waits, so that streams are not held up.
//!
//! Source: RFC 9221 (datagrams of a reliable session), DBAS §II.D (weighted packets).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use hawser_sched::rules::Permission;
use hawser_types::{ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::{ChannelRole, MAX_DATAGRAM, put_datagram};

use super::transport::carries;
use super::{Outgoing, Session, State};
use crate::channel::Channel;
use crate::{DatagramError, Event, StreamError};

/// Datagrams that wait to be sent, or to be taken.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// The peer has said that it takes them.
    pub(super) taken_by_peer: bool,
    waiting: VecDeque<(StreamId, Bytes)>,
    pub(super) waiting_bytes: usize,
    /// By how much of the common weight each link is ahead or behind.
    turns: BTreeMap<LinkIndex, i128>,
    /// The links among which the latest choice was.
    lanes: Vec<Lane>,
    /// Bytes that came and were not taken, over all streams.
    pub(super) held: usize,
}

/// A link in the choice of a channel.
#[derive(Clone, Copy, Debug)]
struct Lane {
    link: LinkIndex,
    /// Its best channel.
    channel: ChannelId,
    /// How good that is, the best first: of the other role, and what it has been given already.
    rank: (bool, usize),
    /// Its part of all turns.
    weight: i128,
}

/// Datagrams given to a channel that are not in a record yet.
#[derive(Debug, Default)]
pub(crate) struct Given {
    list: VecDeque<(StreamId, Bytes)>,
    bytes: usize,
    /// The latest record was one of datagrams.
    was_last: bool,
}

/// Datagrams of one stream that came and were not taken.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    list: VecDeque<Bytes>,
    bytes: usize,
}

impl Session {
    /// Whether the peer takes datagrams; `None` until it has said so.
    pub fn takes_datagrams(&self) -> Option<bool> {
        let greeted = self.commands.greeted;
        greeted.then_some(self.datagrams.taken_by_peer)
    }

    /// Sends a datagram that belongs to a stream, once, as soon as a channel would send it. It may be
    /// lost, and overtake others. A peer that does not know the stream yet drops it.
    pub fn send_datagram(
        &mut self,
        now: Instant,
        id: StreamId,
        payload: Bytes,
    ) -> Result<(), DatagramError> {
        if !self.datagrams.taken_by_peer {
            return Err(DatagramError::NotTaken);
        }
        if payload.len() > MAX_DATAGRAM {
            return Err(DatagramError::TooLarge(payload.len()));
        }
        if self.state == State::Closed {
            return Err(StreamError::SessionClosed.into());
        }
        if !self.streams.contains_key(&id) {
            return Err(StreamError::Unknown(id).into());
        }
        self.datagrams.waiting_bytes += payload.len();
        self.datagrams.waiting.push_back((id, payload));
        self.place_datagrams(now);
        while self.datagrams.waiting_bytes > MAX_WAITING {
            self.datagrams.take_oldest();
            self.counters.datagrams_dropped += 1;
        }
        Ok(())
    }

    /// The datagrams of a stream are a call's: over an association they are worth being sent twice.
    pub fn set_call(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_call = true;
        }
    }

    /// The next datagram that came for a stream; `None`: [`Event::Datagram`] tells when there is one.
    pub fn receive_datagram(&mut self, id: StreamId) -> Result<Option<Bytes>, StreamError> {
        let stream = self.streams.get_mut(&id).ok_or(StreamError::Unknown(id))?;
        let arrived = &mut stream.datagrams;
        let Some(payload) = arrived.list.pop_front() else {
            return match self.state {
                State::Closed => Err(StreamError::SessionClosed),
                _ => Ok(None),
            };
        };
        arrived.bytes -= payload.len();
        self.datagrams.held -= payload.len();
        Ok(Some(payload))
    }

    /// A datagram has come. One for a stream that is over or has not begun is lost, and so is what
    /// nobody takes.
    pub(super) fn on_datagram(&mut self, id: StreamId, payload: &Bytes) {
        self.counters.datagrams_received += 1;
        let room = MAX_HELD.saturating_sub(self.datagrams.held);
        let stream = self.streams.get_mut(&id).filter(|it| !it.abandoned);
        let Some(arrived) = stream.map(|stream| &mut stream.datagrams) else {
            self.counters.datagrams_dropped += 1;
            return;
        };
        let mut freed = 0;
        while arrived.bytes + payload.len() > MAX_HELD_BY_STREAM
            || arrived.list.len() >= MAX_COUNT_BY_STREAM
        {
            let Some(oldest) = arrived.list.pop_front() else {
                break;
            };
            arrived.bytes -= oldest.len();
            freed += oldest.len();
            self.counters.datagrams_dropped += 1;
        }
        self.datagrams.held -= freed;
        if payload.len() > room + freed {
            self.counters.datagrams_dropped += 1;
            return;
        }
        // As a slice it would keep the whole buffer that it came in alive.
        arrived.list.push_back(Bytes::copy_from_slice(payload));
        arrived.bytes += payload.len();
        self.datagrams.held += payload.len();
        self.events.push_back(Event::Datagram(id));
    }

    /// Nobody takes what came for a stream any more.
    pub(super) fn forget_datagrams(&mut self, arrived: &Arrived) {
        self.datagrams.held -= arrived.bytes;
    }

    /// Gives waiting datagrams to channels that would send them at once.
    pub(super) fn place_datagrams(&mut self, now: Instant) {
        while let Some((_, payload)) = self.datagrams.waiting.front() {
            let Some(id) = self.channel_for_datagram(now, payload.len()) else {
                return;
            };
            let oldest = self.datagrams.take_oldest();
            let channel = self.channels.get_mut(&id);
            let (Some(channel), Some((stream, payload))) = (channel, oldest) else {
                return;
            };
            channel.given.bytes += payload.len();
            channel.given.list.push_back((stream, payload));
            self.wake(id);
        }
    }

    /// The channel whose turn it is.
    fn channel_for_datagram(&mut self, now: Instant, size: usize) -> Option<ChannelId> {
        let mut lanes = std::mem::take(&mut self.datagrams.lanes);
        self.fill_lanes(now, size, &mut lanes);
        let chosen = self.datagrams.take_turn(&lanes);
        // Kept for the next one, so that none of them allocates.
        self.datagrams.lanes = lanes;
        chosen
    }

    /// The best channel of each link that has one for a datagram of that size.
    fn fill_lanes(&self, now: Instant, size: usize, lanes: &mut Vec<Lane>) {
        lanes.clear();
        let role = match size {
            ..=SMALL => ChannelRole::Express,
            _ => ChannelRole::Bulk,
        };
        let preferred = |channel: &Channel| channel.terms.permission == Permission::Preferred;
        let mut channels = self.channels.values();
        let only_preferred = channels.any(|c| preferred(c) && c.is_sound(now));
        let association = self.association_for_datagrams(now);
        let open = self.channels.values().filter(|channel| {
            let by_wish = preferred(channel) || !only_preferred || association.is_some();
            let carries = carries(channel, association);
            carries && by_wish && channel.would_take_datagrams(now)
        });
        for channel in open {
            let rank = (channel.spec.role != role, channel.given.bytes);
            let (link, channel) = (channel.spec.link, channel.spec.id);
            match lanes.iter_mut().find(|lane| lane.link == link) {
                Some(lane) if rank < lane.rank => (lane.channel, lane.rank) = (channel, rank),
                Some(_) => {}
                None => lanes.push(Lane {
                    link,
                    channel,
                    rank,
                    weight: 0,
                }),
            }
        }
        self.weigh(lanes);
    }

    /// Enters the rates of links, those that are not known as the least of the others.
    fn weigh(&self, lanes: &mut [Lane]) {
        for channel in self.channels.values() {
            let link = channel.spec.link;
            if let Some(lane) = lanes.iter_mut().find(|lane| lane.link == link) {
                lane.weight += i128::from(channel.path.rate().bytes_per_second());
            }
        }
        let known = lanes.iter().map(|lane| lane.weight);
        let least = known.filter(|weight| *weight > 0).min().unwrap_or(1);
        for lane in lanes.iter_mut().filter(|lane| lane.weight == 0) {
            lane.weight = least;
        }
    }

    /// Puts datagrams into a record for a channel, one or so many bytes of them. The stream of the first.
    pub(super) fn put_datagrams(
        &mut self,
        id: ChannelId,
        most: usize,
        out: &mut Outgoing,
    ) -> Option<StreamId> {
        let channel = self.channels.get_mut(&id)?;
        let is_association = channel.spec.is_association();
        let first = channel.given.list.front().map(|(stream, _)| *stream);
        let mut length = 0;
        while let Some((_, payload)) = channel.given.list.front()
            && (length == 0 || length + payload.len() <= most)
        {
            let (stream, payload) = channel.given.list.pop_front()?;
            length += payload.len();
            channel.given.bytes -= payload.len();
            put_datagram(stream, &payload, &mut out.head);
            let sender = self.streams.get(&stream);
            out.twice |= is_association && sender.is_some_and(|sender| sender.is_call);
            self.tail_budget.on_sent(payload.len() as u64);
            self.counters.datagrams_sent += 1;
        }
        channel.given.was_last = true;
        channel.ready = false;
        first
    }
}

impl Channel {
    /// Whether its next record is one of datagrams.
    pub(crate) fn sends_datagrams(&mut self) -> bool {
        let chunk_first = !self.outbox.is_empty() && std::mem::take(&mut self.given.was_last);
        self.ready && !self.given.list.is_empty() && !chunk_first
    }

    fn would_take_datagrams(&self, now: Instant) -> bool {
        self.ready && self.is_sound(now) && self.given.bytes < MAX_GIVEN
    }

    /// Nothing speaks against sending what will not be repeated over it.
    pub(super) fn is_sound(&self, now: Instant) -> bool {
        let silent = self.suspect_since.is_some() || !self.stalled(now).is_zero();
        !silent && !self.is_excluded() && !self.drains
    }
}

impl Datagrams {
    /// The channel of the link whose turn it is.
    fn take_turn(&mut self, lanes: &[Lane]) -> Option<ChannelId> {
        let turns = &mut self.turns;
        turns.retain(|link, _| lanes.iter().any(|lane| lane.link == *link));
        for lane in lanes {
            *turns.entry(lane.link).or_default() += lane.weight;
        }
        let (link, turn) = turns.iter_mut().max_by_key(|(_, turn)| **turn)?;
        *turn -= lanes.iter().map(|lane| lane.weight).sum::<i128>();
        let lane = lanes.iter().find(|lane| lane.link == *link)?;
        Some(lane.channel)
    }

    fn take_oldest(&mut self) -> Option<(StreamId, Bytes)> {
        let oldest = self.waiting.pop_front()?;
        self.waiting_bytes -= oldest.1.len();
        Some(oldest)
    }
}

/// What fits a packet is for express channels.
const SMALL: usize = 1500;
/// A quarter of a second at 8 Mbit/s: more would only be late.
const MAX_WAITING: usize = 256 * 1024;
/// What a channel has ahead: several records, as it is asked again when one is written.
const MAX_GIVEN: usize = 16 * 1024;
/// What waits for its reader.
const MAX_HELD_BY_STREAM: usize = 256 * 1024;
const MAX_COUNT_BY_STREAM: usize = 1024;
const MAX_HELD: usize = 8 << 20;
