use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::{PacketPolicy, PacketScheduler};
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, Instant};
use hawser_wire::tunnel::TunnelFlow;

use super::codel::CodelConfig;
use super::flows::{Flows, Found};
use super::lane::{Lane, Turn, Waiting};
use super::paths::TunnelPaths;
use crate::packet::{FlowKey, mark_congestion};

/// Queues of flows, which take turns.
///
/// Source: FQ-CoDel, RFC 8290, with a table of flows in place of hashed queues.
#[derive(Debug)]
pub(super) struct FairQueue {
    codel: CodelConfig,
    max_packets: usize,
    max_bytes: ByteCount,
    flows: Flows,
    lanes: Vec<Lane>,
    /// Flows that have begun to send, and those that have had a turn.
    new: VecDeque<TunnelFlow>,
    old: VecDeque<TunnelFlow>,
    /// Where the search for a long queue goes on, and what it found last.
    hand: usize,
    longest: TunnelFlow,
    packets: usize,
    bytes: ByteCount,
    dropped: u64,
    overflowed: u64,
    marked: u64,
}

impl FairQueue {
    pub(super) fn new(
        codel: CodelConfig,
        max_packets: usize,
        max_bytes: ByteCount,
        seed: u64,
    ) -> Self {
        Self {
            codel,
            max_packets,
            max_bytes,
            flows: Flows::new(seed),
            lanes: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            hand: 0,
            longest: TunnelFlow::default(),
            packets: 0,
            bytes: ByteCount::ZERO,
            dropped: 0,
            overflowed: 0,
            marked: 0,
        }
    }

    /// Returns the number of a flow.
    pub(super) fn flow_of(&mut self, now: Instant, key: &FlowKey) -> TunnelFlow {
        let lanes = &self.lanes;
        let age = |flow: TunnelFlow| lanes.get(flow.index())?.rest(now);
        match self.flows.find(key, age) {
            Found::Known(flow) | Found::Shared(flow) => flow,
            Found::New(flow) => {
                if self.lanes.len() <= flow.index() {
                    self.lanes.resize_with(flow.index() + 1, Lane::new);
                }
                self.lanes[flow.index()].begin_anew(now);
                flow
            }
        }
    }

    /// The flows that have a number, with their counts.
    pub(super) fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowTally)> {
        let tallies = self.lanes.iter().map(|lane| &lane.tally);
        self.flows.keys().iter().zip(tallies)
    }

    /// What is known of a flow that was found here.
    pub(super) fn lane_mut(&mut self, flow: TunnelFlow) -> &mut Lane {
        &mut self.lanes[flow.index()]
    }

    pub(super) fn push(&mut self, now: Instant, flow: TunnelFlow, packet: Bytes, real_time: bool) {
        self.packets += 1;
        self.bytes += charge(&packet);
        let lane = &mut self.lanes[flow.index()];
        lane.push(now, packet, real_time);
        if lane.turn == Turn::None {
            lane.turn = Turn::New;
            lane.deficit = QUANTUM;
            self.new.push_back(flow);
        }
        while self.packets > self.max_packets || self.bytes > self.max_bytes {
            self.shorten_longest(flow);
        }
    }

    /// Takes out the next packet. Flows for which the policy has no path at the moment wait.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        policy: &dyn PacketScheduler,
        paths: &mut TunnelPaths,
    ) -> Option<(TunnelFlow, Waiting)> {
        let config = self.codel_for(policy.policy(), paths);
        let mut passed_over = 0;
        loop {
            let (flow, list) = match (self.new.front(), self.old.front()) {
                (Some(flow), _) => (*flow, Turn::New),
                (None, Some(flow)) => (*flow, Turn::Old),
                (None, None) => return None,
            };
            if self.lanes[flow.index()].deficit <= 0 {
                self.lanes[flow.index()].deficit += QUANTUM;
                self.move_to_old(flow, list);
                continue;
            }
            if let Some(first) = self.lanes[flow.index()].first_of_bulk()
                && !policy.has_path(self.backlog(flow, 0), paths.views_for(first, false))
            {
                passed_over += 1;
                if passed_over > LOOKED_AT {
                    return None;
                }
                self.move_to_old(flow, list);
                continue;
            }
            if let Some(waiting) = self.pop_of(now, flow, &config) {
                self.lanes[flow.index()].deficit -= waiting.packet.len() as i64;
                return Some((flow, waiting));
            }
            // An empty new flow gets another round, so that it does not come first again at once.
            if list == Turn::New && !self.old.is_empty() {
                self.move_to_old(flow, list);
            } else {
                self.list(list).pop_front();
                self.lanes[flow.index()].turn = Turn::None;
            }
        }
    }

    /// Estimates how many bytes leave until nothing that waits of a flow now is left: flows take
    /// turns. `taken`: bytes of it that were taken out and have not left.
    pub(super) fn backlog(&self, flow: TunnelFlow, taken: usize) -> ByteCount {
        let turns = (self.new.len() + self.old.len()).max(1) as u64;
        let in_turns = ByteCount::new((self.lanes[flow.index()].bytes + taken as u64) * turns);
        in_turns.min(self.bytes + ByteCount::from(taken))
    }

    /// Tells whether the flow whose turn it is has a real-time packet. Those that have nothing any
    /// more stand in their lists until then.
    pub(super) fn begins_with_real_time(&self) -> bool {
        let lanes = self.new.iter().chain(&self.old).take(LOOKED_AT);
        let mut first = lanes.filter_map(|flow| self.lanes[flow.index()].begins_with_real_time());
        first.next().unwrap_or(false)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) const fn bytes(&self) -> ByteCount {
        self.bytes
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    pub(super) const fn marked(&self) -> u64 {
        self.marked
    }

    pub(super) const fn replaced_flows(&self) -> u64 {
        self.flows.replaced()
    }

    /// Takes out a flow's next packet that CoDel lets pass, marked where it says so.
    fn pop_of(&mut self, now: Instant, flow: TunnelFlow, config: &CodelConfig) -> Option<Waiting> {
        loop {
            let lane = &mut self.lanes[flow.index()];
            let mut waiting = lane.pop()?;
            let is_short = lane.bytes <= QUANTUM as u64;
            let sojourn = now.since(waiting.since);
            let stands = lane.codel.on_packet(now, sojourn, is_short, config);
            self.on_removed(&waiting.packet);
            if !stands {
                return Some(waiting);
            }
            // The mark changes the packet, which may be part of a larger buffer.
            let mut bytes = waiting.packet.to_vec();
            if mark_congestion(&mut bytes) {
                self.marked += 1;
                self.lanes[flow.index()].tally.marked += 1;
                waiting.packet = bytes.into();
                return Some(waiting);
            }
            self.dropped += 1;
            self.lanes[flow.index()].tally.dropped += 1;
        }
    }

    /// Drops the older half of the longest queue, at most [`BATCH`] packets. Source: RFC 8290
    /// §4.1, as Linux does it.
    ///
    /// Of very many queues the one that has just grown, the one that was the longest last time and
    /// [`LOOK_AT`] others are compared: a flood of flows must not cost a look at all of them for
    /// each packet.
    fn shorten_longest(&mut self, grown: TunnelFlow) {
        let active = self.new.iter().chain(&self.old);
        let count = self.new.len() + self.old.len();
        let from = if count > LOOK_AT {
            self.hand % count
        } else {
            0
        };
        self.hand = from + LOOK_AT;
        let some = active.skip(from).take(LOOK_AT);
        let compared = some.chain([&grown, &self.longest]);
        let longest = compared.max_by_key(|flow| self.lanes[flow.index()].bytes);
        let flow = longest.copied().unwrap_or(grown);
        self.longest = flow;
        let goal = self.lanes[flow.index()].bytes / 2;
        for _ in 0..BATCH {
            let lane = &mut self.lanes[flow.index()];
            let Some(waiting) = lane.pop() else {
                return;
            };
            lane.tally.dropped += 1;
            let is_short_enough = lane.bytes <= goal;
            self.on_removed(&waiting.packet);
            self.overflowed += 1;
            if is_short_enough {
                return;
            }
        }
    }

    fn on_removed(&mut self, packet: &Bytes) {
        self.packets -= 1;
        self.bytes -= charge(packet);
    }

    fn move_to_old(&mut self, flow: TunnelFlow, from: Turn) {
        self.list(from).pop_front();
        self.lanes[flow.index()].turn = Turn::Old;
        self.old.push_back(flow);
    }

    fn list(&mut self, turn: Turn) -> &mut VecDeque<TunnelFlow> {
        match turn {
            Turn::New => &mut self.new,
            Turn::Old | Turn::None => &mut self.old,
        }
    }

    /// The times of CoDel for these paths. The interval is for what lies beyond the tunnel, to
    /// which the longest path adds its round trip, and a tenth of it is tolerated (RFC 8289 §4.2,
    /// §4.3); and so are two packets at the rate. Under a policy that waits for the nearer path, so
    /// is the time that it may wait.
    fn codel_for(&self, policy: PacketPolicy, paths: &TunnelPaths) -> CodelConfig {
        let (rate, rtt) = paths.totals();
        let interval = self.codel.interval + rtt.min(MAX_ADDED);
        let packets = rate.time_for(ByteCount::new(2 * QUANTUM as u64));
        let packets = packets.unwrap_or(Duration::ZERO).min(interval);
        let target = self.codel.target.max(packets).max(interval / 10);
        let patience = match policy {
            PacketPolicy::Auto | PacketPolicy::Redundant => paths.spread(),
            _ => Duration::ZERO,
        };
        CodelConfig {
            target: target + patience,
            interval,
        }
    }
}

/// Memory that a packet takes.
pub(super) fn charge(packet: &Bytes) -> ByteCount {
    ByteCount::from(packet.len() + OVERHEAD)
}

/// Flows that are looked at for a real-time packet, and for one that has a path.
const LOOKED_AT: usize = 16;
/// A longer round trip is one with a queue in it.
const MAX_ADDED: Duration = Duration::from_secs(1);
/// Bytes of a flow in each round: an Ethernet frame.
const QUANTUM: i64 = 1514;
/// Packets that are dropped at once.
const BATCH: usize = 64;
/// Queues that are compared for the longest.
const LOOK_AT: usize = 64;
/// Memory for a packet besides its bytes.
const OVERHEAD: usize = 128;
