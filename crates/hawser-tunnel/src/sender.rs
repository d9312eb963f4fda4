mod budget;
mod burst;
mod class;
mod codel;
mod flows;
mod hosts;
mod lane;
mod paths;
mod queue;
mod repair;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::{
    PacketDecision, PacketFlow, PacketPolicy, PacketReason, PacketScheduler, PacketUnit,
};
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::tunnel::{FlowNumber, TunnelFlow, TunnelHeader};

pub use class::Class;
pub use hosts::HostEnd;
pub use paths::TunnelPaths;

use crate::packet::{FlowKey, PacketFault, PacketView};
use budget::CopyBudget;
use burst::{Burst, Ready};
use codel::CodelConfig;
use lane::Waiting;
use paths::size_of;
use queue::FairQueue;
use repair::{Lost, Repairs};

/// Queues packets fairly and says over which path each one leaves.
///
/// The contract: [`Self::enqueue`] what comes, drain [`Self::poll`] to `None`, and poll again when
/// a path has room, or at [`Self::poll_timeout`].
///
/// Hosts and flows are queued by FQ-CoDel before a path is chosen (RFC 8290), so that a busy one
/// delays no other. A queue that stands is told to its sender by a mark where the inner header
/// allows that, else by loss.
#[derive(Debug)]
pub struct Sender {
    policy: Box<dyn PacketScheduler>,
    queue: FairQueue,
    /// The next packets, the first of which waits for a path, and until when at most.
    staged: VecDeque<(TunnelFlow, Waiting)>,
    /// The same of real-time packets.
    staged_call: Option<(TunnelFlow, Waiting)>,
    wake_at: Option<Instant>,
    burst: Burst,
    /// The second copy of the last packet.
    copy: Option<Placed>,
    repairs: Repairs,
    budget: CopyBudget,
    stats: SenderStats,
}

/// Settings of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Policy that chooses the path.
    pub policy: PacketPolicy,
    /// Maximum number of packets that wait.
    pub max_packets: usize,
    /// Maximum memory of packets that wait, with what keeping them costs. A quarter is for those
    /// that were lost on their way.
    pub max_bytes: ByteCount,
    /// Time in the queue that is tolerated at least; a tenth of the interval is in any case.
    pub target: Duration,
    /// Time for which the queue may be longer than that; the longest path's round trip is added.
    pub interval: Duration,
    /// Which address says whose packets they are: hosts have equal shares.
    pub hosts: HostEnd,
    /// Makes the places of flows in tables unpredictable to others.
    pub seed: u64,
}

/// A packet with the path that it leaves over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The path, by its number in the views.
    pub path: ChannelId,
    /// Header in front of the packet.
    pub header: TunnelHeader,
    /// The inner packet.
    pub packet: Bytes,
    /// Why that path.
    pub reason: PacketReason,
}

/// Why a packet is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Its IP headers are wrong.
    #[error(transparent)]
    Fault(#[from] PacketFault),
}

/// Counts of a [`Sender`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderStats {
    /// Packets taken.
    pub taken: u64,
    /// Packets with wrong IP headers.
    pub refused: u64,
    /// Packets placed on a path, copies left out.
    pub placed: u64,
    /// Second copies placed.
    pub copies: u64,
    /// Packets that were lost on their way and placed once more.
    pub repaired: u64,
    /// Packets dropped since a queue stood.
    pub dropped: u64,
    /// Packets dropped since memory was used up.
    pub overflowed: u64,
    /// Packets marked instead of dropped.
    pub marked: u64,
    /// Flows whose place was given to another one.
    pub replaced_flows: u64,
}

impl Sender {
    /// Creates one with an empty queue.
    pub fn new(config: SenderConfig) -> Self {
        let codel = CodelConfig {
            target: config.target,
            interval: config.interval,
        };
        let for_repairs = ByteCount::new(config.max_bytes.as_u64() / REPAIRS);
        Self {
            policy: config.policy.scheduler(),
            queue: FairQueue::new(
                codel,
                config.max_packets,
                config.max_bytes - for_repairs,
                config.hosts,
                config.seed,
            ),
            staged: VecDeque::new(),
            staged_call: None,
            wake_at: None,
            burst: Burst::default(),
            copy: None,
            repairs: Repairs::new(for_repairs),
            budget: CopyBudget::default(),
            stats: SenderStats::default(),
        }
    }

    /// Takes a packet, whose class follows from its size, its marking and its flow's rate.
    ///
    /// # Errors
    /// Refuses a packet whose IP headers are wrong. Bytes behind the packet's end are cut off.
    pub fn enqueue(&mut self, now: Instant, packet: Bytes) -> Result<TunnelFlow, Refused> {
        self.enqueue_as(now, packet, Class::Auto)
    }

    /// Takes a packet of a known class.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub fn enqueue_as(
        &mut self,
        now: Instant,
        mut packet: Bytes,
        class: Class,
    ) -> Result<TunnelFlow, Refused> {
        let view = PacketView::parse(&packet).inspect_err(|_| self.stats.refused += 1)?;
        let (key, length) = (view.flow_key(), view.length());
        packet.truncate(length);
        self.stats.taken += 1;
        let flow = self.queue.flow_of(now, &key);
        let lane = self.queue.lane_mut(flow);
        let real_time = lane.judge(now, class, key.dscp, length);
        self.queue.push(now, flow, packet, real_time);
        Ok(flow)
    }

    /// Takes back a packet that was lost on its way, with its header. It leaves once more, before
    /// all others, and keeps its place in its flow. One that was sent twice is given up, and one
    /// that left longer ago than half a second and the longest round trip.
    pub fn repair(&mut self, left_at: Instant, header: TunnelHeader, packet: Bytes) {
        self.repairs.push(left_at, header, packet);
    }

    /// Returns the next packet that leaves. `paths` has the usable paths; its room and what is in
    /// flight are updated, so that one set of views serves for many calls.
    pub fn poll(&mut self, now: Instant, paths: &mut TunnelPaths) -> Option<Placed> {
        self.wake_at = self.wake_at.filter(|at| *at > now);
        if let Some(copy) = self.copy.take()
            && paths.take_room(copy.path, size_of(&copy.packet), true)
        {
            self.stats.copies += 1;
            let lane = self.queue.lane_mut(copy.header.flow);
            let bytes = ByteCount::from(copy.packet.len());
            lane.tally.on_copied(paths.link(copy.path), bytes);
            return Some(copy);
        }
        if let Some((lost, path, reason)) = self.repairs.pop(now, &mut *self.policy, paths) {
            return Some(self.place_again(lost, path, reason, paths.link(path)));
        }
        self.fill_burst(now, paths);
        if let Some(ready) = self.burst.pop(now, paths) {
            return Some(self.place_ready(now, ready, paths));
        }
        if self.burst.is_gathering() {
            return None;
        }
        self.place_next(now, paths)
    }

    /// Returns when to call [`Self::poll`] although no path has got more room; `None` means not
    /// before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = [
            self.burst.poll_timeout(),
            self.repairs.poll_timeout(),
            self.wake_at,
        ];
        all.into_iter().flatten().min()
    }

    /// Replaces the policy, also for packets that wait.
    pub fn set_policy(&mut self, policy: PacketPolicy) {
        self.policy = policy.scheduler();
    }

    /// The policy that chooses the path.
    pub fn policy(&self) -> PacketPolicy {
        self.policy.policy()
    }

    /// The flows that have a number, with what was sent of each. A flow that came when all numbers
    /// were taken is counted with the one whose number it shares.
    pub fn flows(&self) -> impl Iterator<Item = (&FlowKey, &FlowTally)> {
        self.queue.flows()
    }

    /// Memory of the packets that wait, with what keeping them costs.
    pub fn waiting(&self) -> ByteCount {
        self.queue.bytes() + self.repairs.bytes()
    }

    /// Tells whether nothing waits.
    pub fn is_empty(&self) -> bool {
        let has_next = !self.staged.is_empty() || self.staged_call.is_some() || self.copy.is_some();
        let is_sent = self.burst.is_empty() && self.repairs.is_empty();
        !has_next && is_sent && self.queue.is_empty()
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            dropped: self.queue.dropped(),
            overflowed: self.queue.overflowed(),
            marked: self.queue.marked(),
            replaced_flows: self.queue.replaced_flows(),
            ..self.stats
        }
    }

    fn place_next(&mut self, now: Instant, paths: &mut TunnelPaths) -> Option<Placed> {
        let next = self.take_next(now, paths);
        // A longer path may become worth it by time alone: when the nearer one stays silent.
        let waits = next.is_none() && paths.has_room() && !self.queue.is_empty();
        self.wake_at = waits.then(|| now + LOOK_AGAIN);
        let (flow, waiting) = next?;
        let size = size_of(&waiting.packet);
        let is_copied = self.policy() == PacketPolicy::Redundant && waiting.real_time;
        let lane = self.queue.lane_mut(flow);
        let unit = PacketUnit {
            size,
            flow: PacketFlow {
                real_time: waiting.real_time && (!is_copied || self.budget.allows(now, size)),
                home: lane.home(now),
            },
            waited: now.since(waiting.since),
            backlog: self.queue.backlog(flow, waiting.packet.len()),
        };
        let views = paths.views_for(size, waiting.real_time);
        match self.policy.select(now, &unit, views) {
            PacketDecision::Path(path, reason) => {
                paths.take_room(path, size, waiting.real_time);
                Some(self.place(now, flow, waiting, (path, reason, paths.link(path))))
            }
            PacketDecision::Copies([first, second], reason) => {
                paths.take_room(first, size, waiting.real_time);
                self.budget.spend(size);
                let link = paths.link(first);
                let mut placed = self.place(now, flow, waiting, (first, reason, link));
                placed.header.copied = true;
                placed.header.run = Default::default();
                self.queue.lane_mut(flow).forget_path();
                self.copy = Some(Placed {
                    path: second,
                    ..placed.clone()
                });
                Some(placed)
            }
            PacketDecision::Wait(until, _) => {
                self.wake_at = until;
                if waiting.real_time {
                    self.staged_call = Some((flow, waiting));
                } else {
                    self.staged.push_front((flow, waiting));
                }
                None
            }
        }
    }

    /// Takes out the packet that is to leave next: a real-time one, if it is its flow's turn,
    /// passes bulk that has to wait.
    fn take_next(
        &mut self,
        now: Instant,
        paths: &mut TunnelPaths,
    ) -> Option<(TunnelFlow, Waiting)> {
        if let Some(next) = self.staged_call.take() {
            return Some(next);
        }
        if self.queue.begins_with_real_time()
            && self.staged.len() < MAX_STAGED
            && let Some(next) = self.queue.pop(now, &*self.policy, paths)
        {
            if next.1.real_time {
                return Some(next);
            }
            self.staged.push_back(next);
        }
        if !paths.has_room() {
            return None;
        }
        let staged = self.staged.pop_front();
        staged.or_else(|| self.queue.pop(now, &*self.policy, paths))
    }

    /// Numbers a packet that leaves now.
    fn place(
        &mut self,
        now: Instant,
        flow: TunnelFlow,
        waiting: Waiting,
        (path, reason, link): (ChannelId, PacketReason, LinkIndex),
    ) -> Placed {
        self.stats.placed += 1;
        self.budget.on_sent(size_of(&waiting.packet));
        let unheld = waiting.real_time || !self.policy().is_resequenced();
        let lane = self.queue.lane_mut(flow);
        lane.on_leaves(now, link, &waiting, reason);
        let header = TunnelHeader {
            flow,
            number: FlowNumber::of(lane.next_number()),
            unheld,
            copied: false,
            early: false,
            run: lane.on_placed(now, path),
        };
        Placed {
            path,
            header,
            packet: waiting.packet,
            reason,
        }
    }

    /// Counts a packet that leaves once more.
    fn place_again(
        &mut self,
        Lost { header, packet, .. }: Lost,
        path: ChannelId,
        reason: PacketReason,
        link: LinkIndex,
    ) -> Placed {
        self.stats.repaired += 1;
        let lane = self.queue.lane_mut(header.flow);
        lane.tally.on_copied(link, ByteCount::from(packet.len()));
        Placed {
            path,
            header,
            packet,
            reason,
        }
    }

    /// Gathers and arranges the next burst, where the policy has bursts.
    fn fill_burst(&mut self, now: Instant, paths: &mut TunnelPaths) {
        let wanted = self.policy.burst(paths.views());
        let Some(wanted) = wanted.filter(|_| self.staged.is_empty() && self.staged_call.is_none())
        else {
            return self.burst.release_as_is(now, paths);
        };
        if !self.burst.has_place(wanted, paths) {
            return;
        }
        while self.burst.gathered() < wanted
            && let Some((flow, waiting)) = self.queue.pop(now, &*self.policy, paths)
        {
            let number = self.queue.lane_mut(flow).next_number();
            self.burst.gather(now, flow, number, waiting);
        }
        self.burst.arrange(now, wanted, paths, &mut *self.policy);
    }

    fn place_ready(&mut self, now: Instant, ready: Ready, paths: &TunnelPaths) -> Placed {
        self.stats.placed += 1;
        self.budget.on_sent(size_of(&ready.waiting.packet));
        let lane = self.queue.lane_mut(ready.flow);
        lane.on_leaves(
            now,
            paths.link(ready.path),
            &ready.waiting,
            PacketReason::InOrder,
        );
        lane.forget_path();
        Placed {
            path: ready.path,
            header: TunnelHeader {
                flow: ready.flow,
                number: FlowNumber::of(ready.number),
                unheld: ready.waiting.real_time,
                copied: false,
                early: ready.early,
                run: Default::default(),
            },
            packet: ready.waiting.packet,
            reason: PacketReason::InOrder,
        }
    }
}

impl Default for SenderConfig {
    /// Returns the values of RFC 8290, with as many packets as 16 MiB hold.
    fn default() -> Self {
        Self {
            policy: PacketPolicy::default(),
            max_packets: 10_240,
            max_bytes: ByteCount::from_mib(16),
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            hosts: HostEnd::default(),
            seed: 0,
        }
    }
}

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, packet, .. } = self;
        write!(f, "{} bytes over {path}", packet.len())
    }
}

/// Part of the memory that lost packets have.
const REPAIRS: u64 = 4;
/// Bulk that is passed at the same time.
const MAX_STAGED: usize = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(10);
