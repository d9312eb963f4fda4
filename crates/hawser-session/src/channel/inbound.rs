use std::time::Duration;

use hawser_types::{ChannelId, Instant, RecordNumber};

use crate::error::Misbehaviour;
use hawser_types::RangeSet;

/// Records that came in on a channel, and how far the peer was told of them.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// Records that came; on an association the numbered ones without a gap.
    records: u64,
    /// Numbers of all records that came over an association.
    numbers: RangeSet,
    /// Bytes of payload that came, duplicates included.
    payload: u64,
    acknowledged: u64,
    unacknowledged_bytes: u64,
    ack_due: Option<Instant>,
    /// Time of the latest record that came over TCP.
    came_at: Option<Instant>,
    /// Time of the latest large chunk, and its distance from the one before.
    latest: Option<(Instant, Duration)>,
}

impl Inbound {
    /// Begins behind the records that were exchanged before the session took over.
    pub(super) fn new(records: u64) -> Self {
        Self {
            records,
            numbers: RangeSet::default(),
            payload: 0,
            acknowledged: records,
            unacknowledged_bytes: 0,
            ack_due: None,
            came_at: None,
            latest: None,
        }
    }

    /// Counts a record that came over TCP.
    pub(crate) fn on_record(&mut self, now: Instant) {
        self.records += 1;
        self.came_at = Some(now);
    }

    /// Returns the time of the latest record that came over TCP.
    pub(crate) fn came_at(&self) -> Option<Instant> {
        self.came_at
    }

    /// Counts a record with a number, which came over an association.
    pub(crate) fn on_numbered_record(
        &mut self,
        channel: ChannelId,
        number: RecordNumber,
    ) -> Result<(), Misbehaviour> {
        let value = number.value();
        if value >= self.records + MAX_NUMBERS_AHEAD {
            return Err(Misbehaviour::NumberTooFar(channel, number));
        }
        if self.numbers.contains(value) {
            return Err(Misbehaviour::NumberRepeated(channel, number));
        }
        self.numbers.insert(value..value + 1);
        self.records = self.numbers.prefix();
        Ok(())
    }

    /// Takes note of a chunk. True if the acknowledgement is due at once.
    pub(crate) fn on_chunk(&mut self, now: Instant, bytes: usize) -> bool {
        self.payload += bytes as u64;
        self.unacknowledged_bytes += bytes as u64;
        if bytes >= LARGE {
            let pause = self.latest.map_or(Duration::ZERO, |(at, _)| now.since(at));
            let pause = if pause < MAX_PAUSE {
                pause
            } else {
                Duration::ZERO
            };
            self.latest = Some((now, pause));
        }
        let due = self.ack_due.get_or_insert(now + ACK_DELAY);
        if self.unacknowledged_bytes >= ACK_BYTES {
            *due = (*due).min(now);
        }
        *due <= now
    }

    /// Returns the time of the latest large chunk.
    pub(crate) fn latest(&self) -> Option<Instant> {
        self.latest.map(|(at, _)| at)
    }

    /// True if large chunks keep coming, at the pace at which they came.
    pub(crate) fn is_flowing(&self, now: Instant) -> bool {
        self.latest
            .is_some_and(|(at, pause)| now.since(at) <= MIN_PACE.max(pause * 2))
    }

    /// Returns the time when an acknowledgement is due.
    pub(crate) fn ack_due(&self) -> Option<Instant> {
        self.ack_due
    }

    /// Returns the number of records to acknowledge, if the peer does not know it yet.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
        self.ack_due.take()?;
        self.unacknowledged_bytes = 0;
        (self.records > self.acknowledged).then(|| {
            self.acknowledged = self.records;
            self.records
        })
    }

    /// Returns the number of records that came, without a gap.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Returns the bytes of payload that came, duplicates included.
    pub(crate) fn payload(&self) -> u64 {
        self.payload
    }
}

/// Distance of the furthest number from the first missing one: bounds the memory of the set.
pub(crate) const MAX_NUMBERS_AHEAD: u64 = 65_536;
/// Time that an acknowledgement may wait for a record to travel in.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// Bytes that may wait for an acknowledgement.
const ACK_BYTES: u64 = 512 * 1024;
/// Smaller chunks say nothing of the pace at which a link carries data.
const LARGE: usize = 1000;
/// Longer pauses are the application's.
const MAX_PAUSE: Duration = Duration::from_millis(500);
const MIN_PACE: Duration = Duration::from_millis(100);
