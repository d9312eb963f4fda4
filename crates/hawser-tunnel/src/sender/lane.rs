//! State of one flow at the sender.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::packet::PacketReason;
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::tunnel::Run;

use super::class::Class;
use super::codel::Codel;
use super::hosts::HostNumber;
use super::paths::size_of;

/// A flow's queue, its numbers and its path.
#[derive(Debug)]
pub(super) struct Lane {
    /// The host that the flow belongs to.
    pub(super) host: HostNumber,
    pub(super) packets: VecDeque<Waiting>,
    pub(super) bytes: u64,
    /// Bytes that it may still send in this round.
    pub(super) deficit: i64,
    pub(super) turn: Turn,
    /// It also stands among the flows whose next packet waits for no turn.
    pub(super) is_urgent: bool,
    pub(super) codel: Codel,
    /// Counts of the flow that has this place now.
    pub(super) tally: FlowTally,
    used_at: Instant,
    next_number: u64,
    /// Path of the last packet, when that left, and how many left there without a break.
    path: Option<ChannelId>,
    placed_at: Instant,
    run: u64,
    /// Bytes that a flow of little may send, see [`Lane::judge`].
    credit: u64,
    credit_at: Instant,
    /// When the last packet came that was too large for that, or too much.
    bulk_at: Option<Instant>,
}

/// A packet that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) packet: Bytes,
    pub(super) since: Instant,
    pub(super) real_time: bool,
}

/// The list that a flow stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    New,
    Old,
}

impl Lane {
    pub(super) fn new(host: HostNumber) -> Self {
        Self {
            host,
            packets: VecDeque::new(),
            bytes: 0,
            deficit: 0,
            turn: Turn::None,
            is_urgent: false,
            codel: Codel::default(),
            tally: FlowTally::default(),
            used_at: Instant::ZERO,
            next_number: 0,
            path: None,
            placed_at: Instant::ZERO,
            run: 0,
            credit: CREDIT,
            credit_at: Instant::ZERO,
            bulk_at: None,
        }
    }

    /// Another flow, of this host, has this place from now on. Numbers go on.
    pub(super) fn begin_anew(&mut self, now: Instant, host: HostNumber) {
        self.host = host;
        self.forget_path();
        (self.credit, self.credit_at) = (CREDIT, now);
        self.bulk_at = None;
        self.codel = Codel::default();
        self.tally = FlowTally::new(now);
    }

    /// Judges whether a packet of so many bytes is real-time: by its class, else while its flow
    /// carries little, of packets that are small or marked for it. A small packet behind a large
    /// one would overtake it, so it is not.
    pub(super) fn judge(&mut self, now: Instant, class: Class, dscp: u8, length: usize) -> bool {
        let passed = now.since(self.credit_at);
        let earned = CREDIT_RATE.saturating_mul(passed.as_micros() as u64) / 1_000_000;
        if earned > 0 {
            self.credit = self.credit.saturating_add(earned).min(CREDIT);
            self.credit_at = now;
        }
        let has_credit = self.credit >= length as u64;
        self.credit = self.credit.saturating_sub(length as u64);
        self.used_at = now;
        let is_light = match class {
            Class::RealTime => return true,
            Class::Bulk => false,
            Class::Auto => has_credit && (length <= SMALL || dscp >= REAL_TIME_DSCP),
        };
        if !is_light {
            self.bulk_at = Some(now);
        }
        let is_behind_bulk = self.bulk_at.is_some_and(|at| now.since(at) < OVERTAKES);
        is_light && !is_behind_bulk
    }

    /// Whether its first packet is real-time; `None` where there is none.
    pub(super) fn begins_with_real_time(&self) -> Option<bool> {
        self.packets.front().map(|it| it.real_time)
    }

    /// Returns the part of a path's room that its first packet takes, if that packet is bulk.
    pub(super) fn first_of_bulk(&self) -> Option<ByteCount> {
        let first = self.packets.front().filter(|it| !it.real_time)?;
        Some(size_of(&first.packet))
    }

    /// For how long nothing came; `None` while something waits.
    pub(super) fn rest(&self, now: Instant) -> Option<Duration> {
        let is_idle = self.packets.is_empty() && self.turn == Turn::None;
        is_idle.then(|| now.since(self.used_at))
    }

    /// Path of the last packet, unless that is long ago.
    pub(super) fn home(&self, now: Instant) -> Option<ChannelId> {
        self.path.filter(|_| now.since(self.placed_at) < OVERTAKES)
    }

    pub(super) fn next_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Notes the path of a packet; returns how many left over it just before.
    pub(super) fn on_placed(&mut self, now: Instant, path: ChannelId) -> Run {
        self.run = match self.path {
            Some(last) if last == path => self.run + 1,
            _ => 0,
        };
        self.path = Some(path);
        self.placed_at = now;
        Run::of(self.run)
    }

    /// Counts a packet that leaves over `link`.
    pub(super) fn on_leaves(
        &mut self,
        now: Instant,
        link: LinkIndex,
        waiting: &Waiting,
        why: PacketReason,
    ) {
        let bytes = ByteCount::from(waiting.packet.len());
        self.tally.on_sent(now, link, bytes, why);
        self.tally.real_time += u64::from(waiting.real_time);
    }

    /// The next packet's run begins anew.
    pub(super) fn forget_path(&mut self) {
        self.path = None;
        self.run = 0;
    }

    pub(super) fn push(&mut self, now: Instant, packet: Bytes, real_time: bool) {
        self.bytes += packet.len() as u64;
        self.packets.push_back(Waiting {
            packet,
            since: now,
            real_time,
        });
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let waiting = self.packets.pop_front()?;
        self.bytes -= waiting.packet.len() as u64;
        Some(waiting)
    }
}

/// A packet of a call, or of a question and its answer.
const SMALL: usize = 300;
/// CS4 and above: interactive video, calls, network control.
const REAL_TIME_DSCP: u8 = 32;
/// A flow of little: 512 kbit/s, which is a call with video switched off, and a burst.
const CREDIT_RATE: u64 = 64_000;
const CREDIT: u64 = 8 * 1024;
/// A packet that comes later than this after another one does not overtake it, over whatever path.
const OVERTAKES: Duration = Duration::from_millis(500);
