mod lane;
mod lateness;
mod pace;
mod paths;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, Instant, LinkIndex, PathId};
use hawser_wire::tunnel::{TunnelFlow, TunnelHeader};

use crate::packet::FlowKey;
use lane::{Arrival, Held, Lane, Outcome, Proof};
use paths::Paths;

pub use paths::PathDelay;

/// Puts the packets of each flow in order.
///
/// The contract: [`Self::handle`] what arrived, drain [`Self::poll_delivery`] to `None`, and call
/// [`Self::handle_timeout`] at [`Self::poll_timeout`].
///
/// Paths are compared by a packet's *place* among all that the sender has placed on any path. A
/// missing packet is lost once every usable path has delivered a higher place than that of the
/// packet which waits for it. Where all that is missing left over one path, that path decides
/// alone. In any case it is lost when others have waited for as long as packets are late here, see
/// [`ReceiverConfig::max_hold`].
///
/// A lost packet is sent once more, which others wait for, see [`ReceiverConfig::max_repair`]. A
/// packet that comes after that is handed on late, once. Packets that the sender marked as unheld
/// are handed on at once. Datagrams of UDP that have waited together are handed on in portions,
/// which the socket of a program holds.
#[derive(Debug)]
pub struct Receiver {
    config: ReceiverConfig,
    lanes: Vec<Option<Box<Lane>>>,
    paths: Paths,
    /// Flows that wait: until when at most, and for a place on every path or on one.
    deadlines: BTreeSet<(Instant, TunnelFlow)>,
    by_all: BTreeSet<(u64, TunnelFlow)>,
    by_path: BTreeSet<(PathId, u64, TunnelFlow)>,
    deliveries: VecDeque<Delivery>,
    held_bytes: ByteCount,
    held_packets: usize,
    stats: ReceiverStats,
}

/// Bounds of a [`Receiver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Maximum memory of packets that wait, with what keeping them costs.
    pub max_bytes: ByteCount,
    /// Maximum number of packets that wait.
    pub max_packets: usize,
    /// Longest wait for a missing packet, whatever was measured.
    pub max_hold: Duration,
    /// Longest wait, beyond that, for a lost packet to be sent once more: a round trip of the
    /// longest path and what that varies by. Zero where the sender does not.
    pub max_repair: Duration,
}

/// A packet that is handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The inner packet.
    pub packet: Bytes,
    /// The flow that it belongs to.
    pub flow: TunnelFlow,
    /// Packets of its flow with higher numbers were handed on before, because it counted as lost.
    pub late: bool,
}

/// Counts of a [`Receiver`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets handed on.
    pub delivered: u64,
    /// Packets among them that came after they had counted as lost.
    pub late: u64,
    /// Packets that had come before, and were dropped.
    pub duplicates: u64,
    /// Numbers that counted as lost, those that came late included.
    pub skipped: u64,
    /// Most memory of packets that waited at once.
    pub most_held: ByteCount,
    /// Waits that ended because memory was used up.
    pub squeezed: u64,
}

impl Receiver {
    /// Creates one that has seen nothing.
    pub fn new(config: ReceiverConfig) -> Self {
        Self {
            config,
            lanes: Vec::new(),
            paths: Paths::default(),
            deadlines: BTreeSet::new(),
            by_all: BTreeSet::new(),
            by_path: BTreeSet::new(),
            deliveries: VecDeque::new(),
            held_bytes: ByteCount::ZERO,
            held_packets: 0,
            stats: ReceiverStats::default(),
        }
    }

    /// Takes a packet that came over `path`. `place`: a number that grows with each packet which
    /// the sender places on any path.
    pub fn handle(
        &mut self,
        now: Instant,
        path: PathId,
        place: u64,
        header: &TunnelHeader,
        packet: Bytes,
    ) {
        self.paths.on_place(path, place);
        let flow = header.flow;
        let arrival = Arrival {
            now,
            path,
            place,
            header,
        };
        if self.lanes.len() <= flow.index() {
            self.lanes.resize_with(flow.index() + 1, || None);
        }
        // Out of the table, so that it can be changed beside the rest.
        let lane = self.lanes[flow.index()].take();
        let mut lane = lane.unwrap_or_else(|| Box::new(Lane::new(&arrival)));
        self.stop_waiting(flow, &lane);
        let link = self.paths.link(path).unwrap_or(LinkIndex::ALL);
        let bytes = packet.len();
        lane.of_flow(now, &packet);
        let outcome = lane.handle(&arrival, packet);
        lane.count(now, link, bytes, &outcome);
        match outcome {
            Outcome::Now { packet, waited } => {
                self.on_lateness(&arrival, waited);
                self.deliver(flow, packet, false);
            }
            Outcome::Late { packet, waited } => {
                self.on_lateness(&arrival, waited);
                self.stats.late += 1;
                self.deliver(flow, packet, true);
            }
            Outcome::Held { charge } => self.on_held(charge),
            Outcome::Ahead { packet, charge } => {
                self.on_held(charge);
                self.deliver(flow, packet, false);
            }
            Outcome::Duplicate => self.stats.duplicates += 1,
        }
        self.drain(now, flow, &mut lane);
        self.wait(flow, &mut lane);
        self.lanes[flow.index()] = Some(lane);
        self.resolve(now, path);
        self.squeeze(now);
    }

    /// Sets which paths are usable, with what is known of them. All others are forgotten. Before
    /// the first call every path that brings something is usable.
    pub fn set_paths(&mut self, now: Instant, paths: &[PathDelay]) {
        self.paths.set(paths);
        for delay in paths {
            self.resolve_by_path(now, delay.path);
        }
        self.resolve_by_all(now);
    }

    /// Returns the next packet to hand on.
    pub fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Returns when to call [`Self::handle_timeout`]; `None` means not before another input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Gives up what has been waited for long enough, and hands on what was held back.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, flow)) = self.deadlines.first().copied()
            && at <= now
        {
            let lane = self.lanes.get(flow.index()).and_then(Option::as_ref);
            if lane.is_some_and(|lane| lane.resumes().is_some()) {
                self.go_on(now, flow, |_| 0);
            } else {
                self.miss(now, flow);
            }
        }
    }

    /// The flows of the peer, with what was received of each.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowTally)> {
        let lanes = self.lanes.iter().flatten();
        lanes.filter_map(|lane| Some((lane.key.as_ref()?, &lane.tally)))
    }

    /// Returns whether the driver has said which link is below this path.
    pub fn knows(&self, path: PathId) -> bool {
        self.paths.link(path).is_some()
    }

    /// Returns the counts so far.
    pub const fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Memory of the packets that wait, with what keeping them costs.
    pub const fn held(&self) -> ByteCount {
        self.held_bytes
    }

    /// How long a packet waits at most for one that is missing, as measured now.
    pub fn hold_limit(&self) -> Duration {
        self.paths.hold_limit(self.config.max_hold)
    }

    /// Notes how long others had to wait. What was sent twice says nothing of its path.
    fn on_lateness(&mut self, arrival: &Arrival<'_>, waited: Duration) {
        if !arrival.header.copied {
            self.paths.on_lateness(arrival.now, arrival.path, waited);
        }
    }

    fn on_held(&mut self, charge: ByteCount) {
        self.held_bytes += charge;
        self.held_packets += 1;
        self.stats.most_held = self.stats.most_held.max(self.held_bytes);
    }

    fn deliver(&mut self, flow: TunnelFlow, packet: Bytes, late: bool) {
        self.stats.delivered += 1;
        self.deliveries.push_back(Delivery { packet, flow, late });
    }

    /// Hands on what is in order now, as far as it may go on at once.
    fn drain(&mut self, now: Instant, flow: TunnelFlow, lane: &mut Lane) {
        for _ in 0..lane.allowance(now) {
            let Some(held) = lane.pop_in_order() else {
                return;
            };
            self.held_bytes -= held.charge();
            self.held_packets -= 1;
            if let Held {
                packet: Some(packet),
                ..
            } = held
            {
                self.deliver(flow, packet, false);
            }
        }
    }

    /// Enters a flow whose next packet is missing, or held back, among those that wait.
    fn wait(&mut self, flow: TunnelFlow, lane: &mut Lane) {
        if let Some(at) = lane.resumes() {
            lane.waiting = Some((at, Proof::None));
            self.deadlines.insert((at, flow));
            return;
        }
        let Some((proof, since)) = lane.waits() else {
            return;
        };
        if let Some(deadline) = lane.repair_deadline() {
            lane.waiting = Some((deadline, Proof::None));
            self.deadlines.insert((deadline, flow));
            return;
        }
        let limit = match proof {
            Proof::Path(path, _) => self.paths.path_limit(path, self.config.max_hold),
            Proof::All(_) | Proof::None => self.hold_limit(),
        };
        let deadline = since + limit;
        lane.waiting = Some((deadline, proof));
        self.deadlines.insert((deadline, flow));
        match proof {
            Proof::All(place) => self.by_all.insert((place, flow)),
            Proof::Path(path, place) => self.by_path.insert((path, place, flow)),
            Proof::None => true,
        };
    }

    fn stop_waiting(&mut self, flow: TunnelFlow, lane: &Lane) {
        if let Some((deadline, proof)) = lane.waiting {
            self.forget_waiting(flow, deadline, proof);
        }
    }

    fn forget_waiting(&mut self, flow: TunnelFlow, deadline: Instant, proof: Proof) {
        self.deadlines.remove(&(deadline, flow));
        match proof {
            Proof::All(place) => self.by_all.remove(&(place, flow)),
            Proof::Path(path, place) => self.by_path.remove(&(path, place, flow)),
            Proof::None => true,
        };
    }

    /// Misses what is proven to be lost now that a path has delivered more.
    fn resolve(&mut self, now: Instant, path: PathId) {
        self.resolve_by_path(now, path);
        self.resolve_by_all(now);
    }

    fn resolve_by_path(&mut self, now: Instant, path: PathId) {
        let highest = self.paths.highest(path).unwrap_or(0);
        let of_path = (path, 0, TunnelFlow::default())..(path, highest, TunnelFlow::default());
        while let Some((_, _, flow)) = self.by_path.range(of_path.clone()).next().copied() {
            self.miss(now, flow);
        }
    }

    fn resolve_by_all(&mut self, now: Instant) {
        let Some(reached) = self.paths.reached_by_all() else {
            return;
        };
        while let Some((place, flow)) = self.by_all.first().copied()
            && place < reached
        {
            self.miss(now, flow);
        }
    }

    /// Ends the waits that would end first while more waits than is allowed.
    fn squeeze(&mut self, now: Instant) {
        while self.held_bytes > self.config.max_bytes || self.held_packets > self.config.max_packets
        {
            let Some((_, flow)) = self.deadlines.first().copied() else {
                return;
            };
            self.stats.squeezed += 1;
            self.give_up(now, flow);
        }
    }

    /// Waits once for the repair of the packets that are missing in front of a flow's. Gives them
    /// up if that wait is over.
    fn miss(&mut self, now: Instant, flow: TunnelFlow) {
        let repair = self.paths.repair_limit(self.config.max_repair);
        let lane = self.lanes.get_mut(flow.index()).and_then(Option::as_mut);
        let is_first = |lane: &&mut Box<Lane>| lane.repair_deadline().is_none();
        let lane = lane.filter(|lane| !repair.is_zero() && is_first(lane));
        let Some((lane, (deadline, proof))) = lane.and_then(|lane| {
            let waiting = lane.waiting?;
            Some((lane, waiting))
        }) else {
            return self.give_up(now, flow);
        };
        // The loss may have been known before its turn came.
        let until = deadline.min(now) + repair;
        lane.await_repair(until);
        lane.waiting = Some((until, Proof::None));
        self.forget_waiting(flow, deadline, proof);
        self.deadlines.insert((until, flow));
    }

    /// Goes past what is missing in front of a flow's packets, or hands on a portion of what is
    /// held back.
    fn give_up(&mut self, now: Instant, flow: TunnelFlow) {
        self.go_on(now, flow, |lane| {
            lane.hurry();
            lane.skip()
        });
    }

    /// Ends a flow's wait; `pass` says how many packets are passed over.
    fn go_on(&mut self, now: Instant, flow: TunnelFlow, pass: impl FnOnce(&mut Lane) -> u64) {
        let Some(mut lane) = self.lanes.get_mut(flow.index()).and_then(Option::take) else {
            return;
        };
        self.stop_waiting(flow, &lane);
        lane.waiting = None;
        let skipped = pass(&mut lane);
        self.stats.skipped += skipped;
        lane.tally.given_up += skipped;
        self.drain(now, flow, &mut lane);
        self.wait(flow, &mut lane);
        self.lanes[flow.index()] = Some(lane);
    }
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            max_bytes: ByteCount::from_mib(16),
            max_packets: 8192,
            max_hold: Duration::from_millis(500),
            max_repair: Duration::from_secs(1),
        }
    }
}
