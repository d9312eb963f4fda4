use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

use crate::{AssociationSample, PathSample, Session};

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Client,
    Gateway,
}

impl End {
    pub(super) const BOTH: [Self; 2] = [Self::Client, Self::Gateway];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Gateway,
            Self::Gateway => Self::Client,
        }
    }
}

/// Bytes in flight on a channel, each way.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) id: ChannelId,
    pub(super) is_association: bool,
    /// Nothing crosses it any more, and neither end is told.
    pub(super) is_dead: bool,
    rtt: Duration,
    ways: [Way; 2],
}

/// One direction of a wire.
#[derive(Debug)]
struct Way {
    records: VecDeque<Record>,
    bytes: u64,
    sent: u64,
    last_delivery: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) body: Bytes,
    /// An association may lose it.
    pub(super) may_get_lost: bool,
}

impl Wire {
    pub(super) fn new(now: Instant, id: ChannelId, is_association: bool, rtt: Duration) -> Self {
        let way = || Way {
            records: VecDeque::new(),
            bytes: 0,
            sent: 0,
            last_delivery: now,
        };
        Self {
            id,
            is_association,
            is_dead: false,
            rtt,
            ways: [way(), way()],
        }
    }

    /// Puts a record in flight.
    pub(super) fn send(&mut self, from: End, record: Record) {
        let way = &mut self.ways[from as usize];
        way.bytes += record.body.len() as u64;
        way.sent += record.body.len() as u64;
        way.records.push_back(record);
    }

    /// Takes out the record that arrives next: over an association any of them, else the first.
    pub(super) fn deliver(&mut self, now: Instant, from: End, which: usize) -> Option<Record> {
        let is_association = self.is_association;
        let way = &mut self.ways[from as usize];
        if self.is_dead || way.records.is_empty() {
            return None;
        }
        let place = if is_association {
            which % way.records.len()
        } else {
            0
        };
        let record = way.records.remove(place)?;
        way.bytes -= record.body.len() as u64;
        way.last_delivery = now;
        Some(record)
    }

    /// Loses a record that an association may lose.
    pub(super) fn lose(&mut self, from: End, which: usize) {
        let way = &mut self.ways[from as usize];
        let place = which % way.records.len().max(1);
        if way
            .records
            .get(place)
            .is_some_and(|record| record.may_get_lost)
            && let Some(record) = way.records.remove(place)
        {
            way.bytes -= record.body.len() as u64;
        }
    }

    /// The record that arrives next, to alter it.
    pub(super) fn next_record(&mut self, from: End) -> Option<&mut Record> {
        self.ways[from as usize].records.front_mut()
    }

    /// Loses everything in flight.
    pub(super) fn clear(&mut self) {
        for way in &mut self.ways {
            way.records.clear();
            way.bytes = 0;
        }
    }

    /// True if the kernel of this end would send more.
    pub(super) fn takes_more(&self, from: End) -> bool {
        !self.is_dead && self.ways[from as usize].bytes < KERNEL_BUFFER
    }

    /// Tells a session what its kernel says of the wire.
    pub(super) fn sample(&self, now: Instant, end: End, session: &mut Session) {
        let way = &self.ways[end as usize];
        let other = &self.ways[end.other() as usize];
        let unacknowledged = ByteCount::new(way.bytes);
        let since_ack = match way.bytes {
            0 => Duration::ZERO,
            _ => now.since(way.last_delivery),
        };
        let rate = Rate::from_bits_per_second(20_000_000);
        let window = ByteCount::new(1 << 18);
        if !self.is_association {
            let sample = KernelSample {
                rtt: self.rtt,
                min_rtt: Some(self.rtt),
                delivery_rate: rate,
                congestion_window: window,
                unacknowledged,
                since_ack,
                ..KernelSample::default()
            };
            session.handle_sample(now, self.id, sample);
            session.choose_control(now, self.id);
            return;
        }
        let path = |link: u32, share: u64| PathSample {
            link: LinkIndex::new(link),
            is_active: !self.is_dead,
            is_suspect: self.is_dead,
            rtt: Some(self.rtt * link),
            rate,
            window,
            in_flight: ByteCount::new(way.bytes / 2),
            sent: ByteCount::new(way.sent / 4 * share),
            received: ByteCount::new((other.sent - other.bytes) / 4 * share),
            ..PathSample::default()
        };
        let sample = AssociationSample {
            paths: &[path(1, 3), path(2, 1)],
            placed: &[],
            unacknowledged,
            queued: ByteCount::ZERO,
            since_ack,
            duplicated: ByteCount::ZERO,
            copied: ByteCount::ZERO,
            is_stuck: false,
        };
        session.handle_association_sample(now, self.id, &sample);
    }
}

const KERNEL_BUFFER: u64 = 128 * 1024;
