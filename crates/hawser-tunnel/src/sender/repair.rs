//! Packets that were lost on their way and leave once more.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::{PacketDecision, PacketFlow, PacketReason, PacketScheduler, PacketUnit};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::tunnel::{Run, TunnelHeader};

use super::paths::{TunnelPaths, size_of};
use super::queue::charge;

/// Lost packets that wait for a path, the first ones first.
#[derive(Debug)]
pub(super) struct Repairs {
    waiting: VecDeque<Lost>,
    bytes: ByteCount,
    max_bytes: ByteCount,
    wake_at: Option<Instant>,
}

/// A packet that was lost, with the header that it has when it leaves once more.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) header: TunnelHeader,
    pub(super) packet: Bytes,
    left_at: Instant,
}

impl Repairs {
    pub(super) fn new(max_bytes: ByteCount) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: ByteCount::ZERO,
            max_bytes,
            wake_at: None,
        }
    }

    /// Takes a packet with the header that it had, in memory of its own. One that was sent twice is
    /// given up, and of very many the oldest.
    pub(super) fn push(&mut self, left_at: Instant, header: TunnelHeader, packet: Bytes) {
        if header.copied {
            return;
        }
        let header = TunnelHeader {
            copied: true,
            early: false,
            run: Run::default(),
            ..header
        };
        self.bytes += charge(&packet);
        self.waiting.push_back(Lost {
            header,
            packet: Bytes::copy_from_slice(&packet),
            left_at,
        });
        while self.bytes > self.max_bytes {
            self.pop_front();
        }
    }

    /// Takes out the next packet, for the path that a real-time packet would take now. A few have
    /// that one's room as well; all that a silent path had in flight has bulk's.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        policy: &mut dyn PacketScheduler,
        paths: &mut TunnelPaths,
    ) -> Option<(Lost, ChannelId, PacketReason)> {
        let (_, longest) = paths.totals();
        let is_useless = |it: &Lost| now.since(it.left_at) > USELESS + longest;
        while self.waiting.front().is_some_and(is_useless) {
            self.pop_front();
        }
        self.wake_at = None;
        let lost = self.waiting.front()?;
        let (size, waited) = (size_of(&lost.packet), now.since(lost.left_at));
        let flow = PacketFlow {
            real_time: true,
            home: None,
        };
        let unit = PacketUnit {
            size,
            flow,
            waited,
            ..PacketUnit::default()
        };
        let are_few = self.waiting.len() <= FEW;
        match policy.select(now, &unit, paths.views_for(size, are_few)) {
            PacketDecision::Path(path, reason) | PacketDecision::Copies([path, _], reason) => {
                paths.take_room(path, size, are_few);
                Some((self.pop_front()?, path, reason))
            }
            PacketDecision::Wait(until, _) => {
                self.wake_at = until;
                None
            }
        }
    }

    fn pop_front(&mut self) -> Option<Lost> {
        let lost = self.waiting.pop_front()?;
        self.bytes -= charge(&lost.packet);
        Some(lost)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Memory of the packets, with what keeping them costs.
    pub(super) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// When to try again although no path has got more room.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }
}

/// Packets that links lose by chance at a time.
const FEW: usize = 4;
/// Beyond the longest round trip: the host that sent the packet has sent it again by then.
const USELESS: Duration = Duration::from_millis(500);
