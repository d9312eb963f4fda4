use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::{PacketPolicy, PacketScheduler};
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, Instant};
use hawser_wire::tunnel::TunnelFlow;

use super::codel::CodelConfig;
use super::flows::{Flows, Found};
use super::hosts::{HostEnd, HostNumber, Hosts};
use super::lane::{Lane, Turn, Waiting};
use super::paths::TunnelPaths;
use crate::packet::{FlowKey, mark_congestion};

/// Queues of flows. Hosts take turns, and so do the flows of each.
///
/// Source: FQ-CoDel, RFC 8290, with a table of flows in place of hashed queues, and turns of hosts
/// around those of flows. A flow that has begun to send goes ahead of its host's turn, which is
/// charged for it.
#[derive(Debug)]
pub(super) struct FairQueue {
    codel: CodelConfig,
    max_packets: usize,
    max_bytes: ByteCount,
    flows: Flows,
    lanes: Vec<Lane>,
    /// Where to read a flow's host.
    host_end: HostEnd,
    /// Flows of calls, whose next packet waits for no turn. They stand in other lists as well.
    urgent: VecDeque<TunnelFlow>,
    /// Flows that have begun to send.
    new: VecDeque<TunnelFlow>,
    /// Flows that have had a turn, by host.
    hosts: Hosts,
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
        host_end: HostEnd,
        seed: u64,
    ) -> Self {
        Self {
            codel,
            max_packets,
            max_bytes,
            flows: Flows::new(seed),
            lanes: Vec::new(),
            host_end,
            urgent: VecDeque::new(),
            new: VecDeque::new(),
            hosts: Hosts::default(),
            hand: 0,
            longest: TunnelFlow::default(),
            packets: 0,
            bytes: ByteCount::ZERO,
            dropped: 0,
            overflowed: 0,
            marked: 0,
        }
    }

    /// Returns the number of a flow, which others may share.
    pub(super) fn flow_of(&mut self, now: Instant, key: &FlowKey) -> TunnelFlow {
        let known = self.flows.known(key);
        if let Some(flow) = known
            && self.lanes[flow.index()].turn != Turn::None
        {
            return flow;
        }
        let host = match known {
            Some(flow) => Some(self.lanes[flow.index()].host),
            None => self.hosts.number_of(self.host_end.of(key)),
        };
        let sending = match host {
            Some(host) if !self.hosts.may_send_another(host) => self.hosts.sending_of(host),
            _ => match self.own_number(now, key) {
                Some(flow) => return flow,
                None => host.map_or(&[][..], |host| self.hosts.sending_of(host)),
            },
        };
        self.flows.shared_by(key, sending)
    }

    /// Returns the number that a flow has or gets; `None` if none was found that rests.
    fn own_number(&mut self, now: Instant, key: &FlowKey) -> Option<TunnelFlow> {
        let lanes = &self.lanes;
        let age = |flow: TunnelFlow| lanes.get(flow.index())?.rest(now);
        let flow = match self.flows.find(key, age) {
            Found::Known(flow) => return Some(flow),
            Found::New(flow) => flow,
            Found::AllTaken => return None,
        };
        let host = self.hosts.join(self.host_end.of(key));
        match self.lanes.get(flow.index()) {
            Some(lane) => self.hosts.leave(lane.host),
            None => self.lanes.push(Lane::new(host)),
        }
        self.lanes[flow.index()].begin_anew(now, host);
        Some(flow)
    }

    /// The flows that have a number, with their counts.
    pub(super) fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowTally)> {
        let tallies = self.lanes.iter().map(|lane| &lane.tally);
        self.flows.keys().iter().zip(tallies)
    }

    /// Returns the state of a flow that was found here.
    pub(super) fn lane_mut(&mut self, flow: TunnelFlow) -> &mut Lane {
        &mut self.lanes[flow.index()]
    }

    pub(super) fn push(&mut self, now: Instant, flow: TunnelFlow, packet: Bytes, real_time: bool) {
        self.packets += 1;
        self.bytes += charge(&packet);
        let lane = &mut self.lanes[flow.index()];
        self.hosts.on_added(lane.host, packet.len());
        let was_empty = lane.packets.is_empty();
        lane.push(now, packet, real_time);
        if lane.turn == Turn::None {
            lane.turn = Turn::New;
            lane.deficit = QUANTUM;
            self.hosts.on_flow_begins(lane.host, flow);
            self.new.push_back(flow);
        }
        if was_empty && real_time && !lane.is_urgent {
            lane.is_urgent = true;
            self.urgent.push_back(flow);
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
        if let Some(urgent) = self.pop_urgent(now, &config) {
            return Some(urgent);
        }
        let mut passed_over = 0;
        // Flows of the next host that were passed over, and hosts of which enough were.
        let (mut of_host, mut hosts) = (0, 0);
        loop {
            let (flow, list) = match self.new.front() {
                Some(flow) => (*flow, Turn::New),
                None => (self.hosts.first_after(hosts)?, Turn::Old),
            };
            let lane = &mut self.lanes[flow.index()];
            let host = lane.host;
            if lane.deficit <= 0 {
                lane.deficit += QUANTUM;
                self.move_to_old(flow, list);
                continue;
            }
            let bulk = lane.first_of_bulk();
            if list == Turn::New && self.hosts.has_to_wait(host, bulk.is_none()) {
                self.move_to_old(flow, list);
                continue;
            }
            if let Some(first) = bulk
                && !policy.has_path(self.backlog(flow, 0), paths.views_for(first, false))
            {
                passed_over += 1;
                if passed_over > LOOKED_AT {
                    return None;
                }
                self.move_to_old(flow, list);
                of_host += usize::from(list == Turn::Old);
                if of_host >= self.hosts.count_of(host).min(LOOKED_AT_OF_HOST) {
                    (of_host, hosts) = (0, hosts + 1);
                }
                continue;
            }
            if let Some(waiting) = self.pop_of(now, flow, &config) {
                self.on_taken(flow, &waiting, list == Turn::Old);
                return Some((flow, waiting));
            }
            // An empty new flow gets another round, so that it does not come first again at once.
            if list == Turn::New && !self.hosts.is_empty() {
                self.move_to_old(flow, list);
            } else {
                self.take_first(host, list);
                self.rest(flow);
            }
        }
    }

    /// Takes out the packet of a call. It waits neither for its host's turn nor for its own.
    fn pop_urgent(&mut self, now: Instant, config: &CodelConfig) -> Option<(TunnelFlow, Waiting)> {
        while let Some(flow) = self.urgent.pop_front() {
            let lane = &mut self.lanes[flow.index()];
            lane.is_urgent = false;
            let is_call = lane.begins_with_real_time() == Some(true);
            if !is_call || self.hosts.has_to_wait(lane.host, true) {
                continue;
            }
            if let Some(waiting) = self.pop_of(now, flow, config) {
                self.on_taken(flow, &waiting, false);
                return Some((flow, waiting));
            }
        }
        None
    }

    /// Charges a flow and its host for a packet.
    fn on_taken(&mut self, flow: TunnelFlow, waiting: &Waiting, in_turn: bool) {
        let (lane, length) = (&mut self.lanes[flow.index()], waiting.packet.len());
        lane.deficit -= length as i64;
        self.hosts
            .charge(lane.host, length, waiting.real_time, in_turn);
    }

    /// Estimates how many bytes leave until nothing that waits of a flow now is left: hosts and
    /// flows take turns. `taken`: bytes of it that were taken out and have not left.
    pub(super) fn backlog(&self, flow: TunnelFlow, taken: usize) -> ByteCount {
        let lane = &self.lanes[flow.index()];
        let turns = self.hosts.round(lane.host) as u64;
        let in_turns = ByteCount::new((lane.bytes + taken as u64) * turns);
        in_turns.min(self.bytes + ByteCount::from(taken))
    }

    /// Tells whether the flow whose turn it is has a real-time packet. Those that have nothing any
    /// more stand in their lists until then.
    pub(super) fn begins_with_real_time(&self) -> bool {
        let lanes = self.urgent.iter().chain(&self.new);
        let lanes = lanes.chain(self.hosts.flows()).take(LOOKED_AT);
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
            self.on_removed(flow, &waiting.packet);
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

    /// Drops the older half of the longest queue of the host that has most, at most [`BATCH`]
    /// packets. Source: RFC 8290 §4.1, as Linux does it.
    fn shorten_longest(&mut self, grown: TunnelFlow) {
        let flow = self.find_longest(grown);
        self.longest = flow;
        let goal = self.lanes[flow.index()].bytes / 2;
        for _ in 0..BATCH {
            let lane = &mut self.lanes[flow.index()];
            let Some(waiting) = lane.pop() else {
                break;
            };
            lane.tally.dropped += 1;
            let is_short_enough = lane.bytes <= goal;
            self.on_removed(flow, &waiting.packet);
            self.overflowed += 1;
            if is_short_enough {
                break;
            }
        }
        if self.lanes[flow.index()].bytes == 0 && self.new.back() == Some(&flow) {
            // In a flood of flows, those whose only packet is dropped would fill the list.
            self.new.pop_back();
            self.rest(flow);
        }
    }

    /// Finds a long queue of a host that has much.
    ///
    /// Of very many the one that has just grown, the one that was the longest last time and
    /// [`LOOK_AT`] others are compared: a flood of flows must not cost a look at all of them for
    /// each packet.
    fn find_longest(&mut self, grown: TunnelFlow) -> TunnelFlow {
        let from = self.hand;
        self.hand = self.hand.wrapping_add(LOOK_AT);
        let host_of = |flow: &TunnelFlow| self.lanes[flow.index()].host;
        let new = || self.new.iter().rev().take(LOOK_AT);
        let known = || new().chain([&self.longest, &grown]);
        let hosts = self.hosts.numbers(from).take(LOOK_AT);
        let hosts = hosts.chain(known().map(host_of));
        let fullest = hosts.max_by_key(|host| self.hosts.bytes(*host));
        let fullest = fullest.unwrap_or(host_of(&grown));
        let flows = self.hosts.flows_of(fullest, from).take(LOOK_AT);
        let flows = flows.chain(known().filter(|flow| host_of(flow) == fullest));
        let longest = flows.max_by_key(|flow| self.lanes[flow.index()].bytes);
        let waits = |flow: &TunnelFlow| self.lanes[flow.index()].bytes > 0;
        let longest = longest.copied().filter(waits);
        // The longest flow may have been emptied before. Some flow waits in any case.
        let any = || (0..).map_while(TunnelFlow::new).find(waits);
        longest
            .or(Some(grown).filter(waits))
            .or_else(any)
            .unwrap_or(grown)
    }

    /// A flow that stands in no list any more.
    fn rest(&mut self, flow: TunnelFlow) {
        let lane = &mut self.lanes[flow.index()];
        lane.turn = Turn::None;
        self.hosts.on_flow_rests(lane.host, flow);
    }

    fn on_removed(&mut self, flow: TunnelFlow, packet: &Bytes) {
        self.packets -= 1;
        self.bytes -= charge(packet);
        let host = self.lanes[flow.index()].host;
        self.hosts.on_removed(host, packet.len());
    }

    /// Moves the first flow of a list behind the others of its host.
    fn move_to_old(&mut self, flow: TunnelFlow, from: Turn) {
        let lane = &mut self.lanes[flow.index()];
        lane.turn = Turn::Old;
        let host = lane.host;
        // First, since a host without flows loses its turn.
        self.hosts.push(host, flow);
        self.take_first(host, from);
    }

    fn take_first(&mut self, host: HostNumber, list: Turn) {
        match list {
            Turn::New => drop(self.new.pop_front()),
            Turn::Old | Turn::None => self.hosts.take_first(host),
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
/// As many of one host, before the next host's are looked at.
const LOOKED_AT_OF_HOST: usize = 4;
/// A longer round trip is one with a queue in it.
const MAX_ADDED: Duration = Duration::from_secs(1);
/// Bytes of a flow in each round of its host: an Ethernet frame.
const QUANTUM: i64 = 1514;
/// Packets that are dropped at once.
const BATCH: usize = 64;
/// Queues that are compared for the longest.
const LOOK_AT: usize = 64;
/// Memory for a packet besides its bytes.
const OVERHEAD: usize = 128;
