use std::time::Duration;

use bytes::Bytes;
use hawser_sched::PathView;
use hawser_types::{ByteCount, ChannelId, LinkIndex, Rate};
use hawser_wire::tunnel::TunnelHeader;

/// The paths that packets may leave over, with the room of each.
///
/// A driver fills it once for each wake-up. [`Sender::poll`](super::Sender::poll) takes from it.
#[derive(Clone, Debug, Default)]
pub struct TunnelPaths {
    views: Vec<PathView>,
    rooms: Vec<ByteCount>,
    /// Room of each beyond that, for real-time packets: bulk takes all there is, and a call would
    /// have to take another path.
    reserves: Vec<ByteCount>,
}

impl TunnelPaths {
    /// Takes all paths out.
    pub fn clear(&mut self) {
        self.views.clear();
        self.rooms.clear();
        self.reserves.clear();
    }

    /// Adds a path, in ascending order of its number. `room`: bytes of messages, with the tunnel's
    /// headers, that it can take now. `ready` of the view is set by the room.
    pub fn push(&mut self, view: PathView, room: ByteCount) {
        self.views.push(view);
        self.rooms.push(room);
        self.reserves.push(RESERVE);
    }

    /// The paths, as after what was placed on them.
    pub fn views(&self) -> &[PathView] {
        &self.views
    }

    /// Sum of the rates that are known, and the longest round trip without a queue.
    pub(super) fn totals(&self) -> (Rate, Duration) {
        let rate = self.views.iter().map(|view| view.rate).sum();
        let longest = self
            .views
            .iter()
            .map(|view| view.min_rtt.min(view.rtt))
            .max();
        (rate, longest.unwrap_or_default())
    }

    /// By how much the longest path is later than the nearest, without queues, of those that
    /// answer.
    pub(super) fn spread(&self) -> Duration {
        let known = self
            .views
            .iter()
            .filter(|view| !view.suspect && !view.rtt.is_zero());
        let round_trips = known.map(|view| view.min_rtt.min(view.rtt));
        let (least, most) = (round_trips.clone().min(), round_trips.max());
        least
            .zip(most)
            .map_or(Duration::ZERO, |(least, most)| (most - least) / 2)
    }

    pub(super) fn has_room(&self) -> bool {
        self.with_room().next().is_some()
    }

    /// The paths that have room for anything.
    pub(super) fn with_room(&self) -> impl Iterator<Item = ChannelId> {
        let views = self.views.iter().zip(&self.rooms);
        let with_room = views.filter(|(_, room)| **room > ByteCount::ZERO);
        with_room.map(|(view, _)| view.channel)
    }

    /// The paths, ready where a packet of `size` has room.
    pub(super) fn views_for(&mut self, size: ByteCount, real_time: bool) -> &[PathView] {
        let rooms = self.rooms.iter().zip(&self.reserves);
        for (view, (room, reserve)) in self.views.iter_mut().zip(rooms) {
            view.ready = *room >= size || real_time && *reserve >= size;
        }
        &self.views
    }

    /// The link below a path.
    pub(super) fn link(&self, path: ChannelId) -> LinkIndex {
        let view = self.views.iter().find(|view| view.channel == path);
        view.map_or(LinkIndex::ALL, |view| view.link)
    }

    /// Places a packet; returns whether the path is there and had room.
    pub(super) fn take_room(&mut self, path: ChannelId, size: ByteCount, real_time: bool) -> bool {
        let Some(place) = self.views.iter().position(|view| view.channel == path) else {
            return false;
        };
        let room = if self.rooms[place] < size && real_time {
            &mut self.reserves[place]
        } else {
            &mut self.rooms[place]
        };
        let had_room = *room >= size;
        if had_room {
            *room -= size;
            self.views[place].in_flight += size;
        }
        had_room
    }
}

/// As much as some calls send between two looks.
const RESERVE: ByteCount = ByteCount::new(4 * 1500);

/// Returns the part of a path's room that a packet takes.
pub(super) fn size_of(packet: &Bytes) -> ByteCount {
    ByteCount::from(packet.len() + TunnelHeader::MAX_LENGTH)
}
