//! Packets that were lost on their way and leave once more.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::{PacketDecision, PacketFlow, PacketReason, PacketScheduler, PacketUnit};
use hawser_types::{ChannelId, Instant};
use hawser_wire::tunnel::{Run, TunnelHeader};

use super::paths::{TunnelPaths, size_of};

/// Lost packets that wait for a path, the first ones first.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    waiting: VecDeque<Lost>,
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
    /// Takes a packet with the header that it had. One that was sent twice is given up.
    pub(super) fn push(&mut self, left_at: Instant, header: TunnelHeader, packet: Bytes) {
        if header.copied || self.waiting.len() == MAX_LOST {
            return;
        }
        let header = TunnelHeader {
            copied: true,
            early: false,
            run: Run::default(),
            ..header
        };
        self.waiting.push_back(Lost {
            header,
            packet,
            left_at,
        });
    }

    /// Takes out the next packet, for the path that a real-time packet would take now.
    pub(super) fn pop(
        &mut self,
        now: Instant,
        policy: &mut dyn PacketScheduler,
        paths: &mut TunnelPaths,
    ) -> Option<(Lost, ChannelId, PacketReason)> {
        let is_useless = |it: &Lost| now.since(it.left_at) > USELESS;
        while self.waiting.front().is_some_and(is_useless) {
            self.waiting.pop_front();
        }
        self.wake_at = None;
        let lost = self.waiting.front()?;
        let (size, waited) = (size_of(&lost.packet), now.since(lost.left_at));
        let flow = PacketFlow {
            real_time: true,
            home: None,
        };
        let unit = PacketUnit { size, flow, waited };
        match policy.select(now, &unit, paths.views_for(size, true)) {
            PacketDecision::Path(path, reason) | PacketDecision::Copies([path, _], reason) => {
                paths.take_room(path, size, true);
                Some((self.waiting.pop_front()?, path, reason))
            }
            PacketDecision::Wait(until, _) => {
                self.wake_at = until;
                None
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// When to try again although no path has got more room.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.wake_at
    }
}

/// Lost packets that wait at most: what a fast path has in flight when it falls silent.
const MAX_LOST: usize = 2048;
/// Whoever sent a packet has sent it again by then.
const USELESS: Duration = Duration::from_millis(500);
