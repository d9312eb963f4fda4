//! The channels of a session, by number, and those whose driver has to be told of something.

mod crawling;
mod fresh_link;
mod full_segments;
mod silence;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;
use smallvec::SmallVec;

use crate::channel::{Channel, Route};
use crate::transport::Transport;

/// The channels of a session.
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Boxed: a map has room for eleven at least, and most sessions have four.
    by_id: BTreeMap<ChannelId, Box<Channel>>,
    /// Channels that have something to send, of which the driver was not told yet.
    wakes: VecDeque<ChannelId>,
    /// Ways over links that crawl.
    crawling: SmallVec<[Route; 4]>,
}

/// Numbers of a few channels.
pub(crate) type ChannelIds = SmallVec<[ChannelId; 8]>;

impl Channels {
    /// Adds a channel.
    pub(crate) fn insert(&mut self, channel: Channel) {
        self.by_id.insert(channel.id(), Box::new(channel));
    }

    /// Takes a channel out.
    pub(crate) fn remove(&mut self, id: ChannelId) -> Option<Channel> {
        self.by_id.remove(&id).map(|channel| *channel)
    }

    /// Returns a channel.
    pub(crate) fn get(&self, id: ChannelId) -> Option<&Channel> {
        self.by_id.get(&id).map(|channel| &**channel)
    }

    /// Returns a channel, to change it.
    pub(crate) fn get_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.by_id.get_mut(&id).map(|channel| &mut **channel)
    }

    /// True if the channel is there.
    pub(crate) fn contains(&self, id: ChannelId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Returns the number of channels.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// True if there is no channel.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Returns all channels, by number.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Channel> {
        self.by_id.values().map(|channel| &**channel)
    }

    /// Returns all channels, to change them.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        self.by_id.values_mut().map(|channel| &mut **channel)
    }

    /// Returns the channels of a link.
    pub(crate) fn of_link(&self, link: LinkIndex) -> impl Iterator<Item = &Channel> {
        self.iter().filter(move |channel| channel.link() == link)
    }

    /// Returns the channels that go one way.
    pub(crate) fn of_route(&self, route: Route) -> impl Iterator<Item = &Channel> {
        self.iter().filter(move |channel| channel.route() == route)
    }

    /// Returns the channels that are not suspect.
    pub(crate) fn not_suspect(&self) -> impl Iterator<Item = &Channel> {
        self.iter().filter(|channel| !channel.is_suspect())
    }

    /// Returns the silent suspects of one kind that go one way.
    pub(crate) fn suspects_of(
        &self,
        route: Route,
        role: ChannelRole,
    ) -> impl Iterator<Item = &Channel> {
        self.of_route(route)
            .filter(move |channel| channel.role() == role && channel.is_suspect())
            .filter(|channel| !channel.liveness().crawls())
    }

    /// Returns the numbers of the channels that `is_meant` picks.
    pub(crate) fn ids(&self, is_meant: impl Fn(&Channel) -> bool) -> ChannelIds {
        let meant = self.iter().filter(|channel| is_meant(channel));
        meant.map(Channel::id).collect()
    }

    /// Tells the driver that a channel has something to send.
    pub(crate) fn wake(&mut self, id: ChannelId) {
        if let Some(channel) = self.by_id.get_mut(&id)
            && channel.mark_woken()
        {
            self.wakes.push_back(id);
        }
    }

    /// Tells the driver that the channel has something to send over which a small message arrives
    /// first.
    pub(crate) fn wake_quickest(&mut self) {
        let quickest = self.iter().min_by_key(|channel| channel.slowness());
        if let Some(id) = quickest.map(Channel::id) {
            self.wake(id);
        }
    }

    /// Tells the driver of channels whose acknowledgements are due. Where a channel can't take one,
    /// the peer learns the same when the channel moves again, or dies.
    pub(crate) fn wake_due_acks(&mut self, now: Instant) {
        let due = |channel: &Channel| channel.inbound().ack_due().is_some_and(|due| due <= now);
        for id in self.ids(due) {
            self.wake(id);
        }
    }

    /// Takes out a channel of which the driver was not told yet.
    pub(crate) fn poll_wake(&mut self) -> Option<ChannelId> {
        self.wakes.pop_front()
    }

    /// True if a channel would send a chunk or a datagram at once.
    pub(crate) fn any_ready(&self) -> bool {
        self.iter().any(|channel| channel.outbound().is_ready())
    }

    /// Returns the best companion of a channel for a message that should not depend on one channel
    /// alone: the quickest of another link, else of its own.
    pub(crate) fn quickest_beside(&self, id: ChannelId) -> Option<ChannelId> {
        let link = self.get(id)?.link();
        self.iter()
            .filter(|channel| channel.id() != id && !channel.is_excluded())
            .min_by_key(|channel| (channel.link() == link, channel.slowness()))
            .map(Channel::id)
    }

    /// Returns the quickest channel that goes another way than `route`, may be used and is not
    /// suspect.
    pub(crate) fn quickest_off(&self, route: Route) -> Option<ChannelId> {
        self.iter()
            .filter(|channel| channel.route() != route && channel.is_usable())
            .min_by_key(|channel| channel.slowness())
            .map(Channel::id)
    }

    /// Returns the shortest round-trip time of an empty path, of all channels that are not suspect.
    pub(crate) fn shortest_path(&self) -> Option<Duration> {
        self.not_suspect()
            .filter_map(|channel| channel.path().min_rtt())
            .min()
    }

    /// Returns how many bytes all links carry in `time`, as far as is known; at least a chunk.
    pub(crate) fn carried_in(&self, time: Duration) -> u64 {
        let rate = |transport: Transport| -> Rate {
            let bulk = |c: &&Channel| c.role() == ChannelRole::Bulk && !c.is_excluded();
            let bulk = self.iter().filter(bulk);
            let bulk = bulk.filter(|channel| channel.transport() == transport);
            bulk.map(|channel| channel.path().rate()).sum()
        };
        let rate = rate(Transport::Tcp).max(rate(Transport::Association));
        (rate * time).as_u64().max(LEAST_CARRIED)
    }

    /// Returns the bytes that a link's channels have in flight in their connections.
    pub(crate) fn in_flight_on(&self, link: LinkIndex) -> ByteCount {
        let bytes = self.of_link(link);
        ByteCount::new(bytes.map(|channel| channel.outbound().not_arrived()).sum())
    }
}

/// Least that links are taken to carry, whatever their rates: a chunk or two.
pub(crate) const LEAST_CARRIED: u64 = 4096;
