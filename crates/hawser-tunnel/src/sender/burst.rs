//! Packets that leave together in an order of their own, as IKR has it.

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::packet::{Arranged, PacketScheduler};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::tunnel::TunnelFlow;

use super::lane::Waiting;
use super::paths::{TunnelPaths, size_of};

/// A burst while it is gathered, and those that are being released.
#[derive(Debug, Default)]
pub(super) struct Burst {
    gathered: Vec<Gathered>,
    since: Option<Instant>,
    /// In the order in which they leave.
    releasing: Vec<Releasing>,
    /// Memory of the last arrangement.
    order: Vec<Arranged>,
    views: Vec<PathView>,
    sizes: Vec<ByteCount>,
    wake_at: Option<Instant>,
}

/// A packet that may leave now.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) flow: TunnelFlow,
    pub(super) number: u64,
    pub(super) waiting: Waiting,
    pub(super) path: ChannelId,
    /// Packets of its flow with lower numbers have not left yet.
    pub(super) early: bool,
}

#[derive(Debug)]
struct Gathered {
    flow: TunnelFlow,
    number: u64,
    waiting: Waiting,
}

#[derive(Debug)]
struct Releasing {
    packet: Gathered,
    path: ChannelId,
    at: Instant,
}

impl Burst {
    /// Takes a packet into the burst that is gathered.
    pub(super) fn gather(&mut self, now: Instant, flow: TunnelFlow, number: u64, waiting: Waiting) {
        self.since.get_or_insert(now);
        self.gathered.push(Gathered {
            flow,
            number,
            waiting,
        });
    }

    pub(super) fn gathered(&self) -> usize {
        self.gathered.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.releasing.is_empty()
    }

    /// Packets are kept here that have numbers already, so that no other may overtake them.
    pub(super) fn is_gathering(&self) -> bool {
        !self.is_empty()
    }

    /// Tells whether another burst may be gathered beside what is being released: while that is
    /// little, or a path is idle since the packets of others wait.
    pub(super) fn has_place(&self, wanted: usize, paths: &TunnelPaths) -> bool {
        let is_idle = |path: ChannelId| self.releasing.iter().all(|entry| entry.path != path);
        let mut with_room = paths.with_room();
        self.releasing.len() < wanted
            || self.releasing.len() < MAX_BURSTS * wanted && with_room.any(is_idle)
    }

    /// Releases what was gathered as it came, over the first path: the policy has no bursts now.
    pub(super) fn release_as_is(&mut self, now: Instant, paths: &TunnelPaths) {
        let Some(first) = paths.views().first() else {
            return;
        };
        self.since = None;
        let gathered = self.gathered.drain(..).map(|packet| Releasing {
            packet,
            path: first.channel,
            at: now,
        });
        self.releasing.extend(gathered);
    }

    /// Arranges what was gathered, once it is as much as is wanted or has waited long enough.
    pub(super) fn arrange(
        &mut self,
        now: Instant,
        wanted: usize,
        paths: &TunnelPaths,
        policy: &mut dyn PacketScheduler,
    ) {
        let Some(since) = self.since else {
            return;
        };
        if self.gathered.len() < wanted && now < since + GATHER {
            return;
        }
        self.sizes.clear();
        let sizes = self.gathered.iter();
        self.sizes
            .extend(sizes.map(|it| size_of(&it.waiting.packet)));
        self.views.clear();
        self.views.extend_from_slice(paths.views());
        for entry in &self.releasing {
            let mut views = self.views.iter_mut();
            if let Some(view) = views.find(|view| view.channel == entry.path) {
                view.in_flight += size_of(&entry.packet.waiting.packet);
            }
        }
        self.order.clear();
        policy.arrange(&self.sizes, &self.views, &mut self.order);
        if self.order.len() != self.gathered.len() {
            return;
        }
        self.since = None;
        let mut packets: Vec<_> = self.gathered.drain(..).map(Some).collect();
        for place in &self.order {
            if let Some(packet) = packets.get_mut(place.packet).and_then(Option::take) {
                self.releasing.push(Releasing {
                    packet,
                    path: place.path,
                    at: now + place.after,
                });
            }
        }
    }

    /// Takes out the next packet that is due and has room. Those of one path stay in their order. A
    /// packet whose path is gone takes the first one with room.
    pub(super) fn pop(&mut self, now: Instant, paths: &mut TunnelPaths) -> Option<Ready> {
        // Without a usable path nothing is arranged, and time alone changes nothing.
        let gathered_at = self.since.map(|since| since + GATHER);
        self.wake_at = gathered_at.filter(|at| *at > now);
        let mut place = 0;
        let mut passed: [Option<ChannelId>; MAX_PATHS] = [None; MAX_PATHS];
        let mut passed_count = 0;
        while let Some(entry) = self.releasing.get_mut(place) {
            let is_there = |path| paths.views().iter().any(|view| view.channel == path);
            if !is_there(entry.path) {
                entry.path = paths.views().first()?.channel;
            }
            let is_behind = passed[..passed_count].contains(&Some(entry.path));
            let is_due = entry.at <= now;
            let size = size_of(&entry.packet.waiting.packet);
            if !is_behind && is_due && paths.take_room(entry.path, size, false) {
                return Some(self.take(place));
            }
            if !is_behind {
                if !is_due {
                    let wake_at = self.wake_at.map_or(entry.at, |at| at.min(entry.at));
                    self.wake_at = Some(wake_at);
                }
                if passed_count == MAX_PATHS {
                    return None;
                }
                passed[passed_count] = Some(entry.path);
                passed_count += 1;
            }
            place += 1;
        }
        None
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }

    fn take(&mut self, place: usize) -> Ready {
        let Releasing { packet, path, .. } = self.releasing.remove(place);
        let is_before =
            |other: &Gathered| other.flow == packet.flow && other.number < packet.number;
        let early = self.releasing.iter().any(|it| is_before(&it.packet));
        Ready {
            flow: packet.flow,
            number: packet.number,
            waiting: packet.waiting,
            path,
            early,
        }
    }
}

/// How long the first packet of a burst waits for others.
const GATHER: Duration = Duration::from_millis(2);
/// Bursts that are released at once, where one path is slower than was thought.
const MAX_BURSTS: usize = 8;
/// Paths of a burst that are waited for at once.
const MAX_PATHS: usize = 16;
