use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use crate::unacknowledged::ChunkKey;

/// Chunks given to a channel, and how far the peer has come with them.
///
/// A chunk waits in the outbox until a record takes it, and is in flight until the peer
/// acknowledges that record.
#[derive(Debug)]
pub(crate) struct Outbound {
    /// The kernel would send more at once.
    ready: bool,
    /// Chunks that are not in a record yet.
    outbox: VecDeque<Assigned>,
    /// Chunks in records that the peer has not acknowledged, in the order of their records.
    sent: VecDeque<Sent>,
    /// Records sent, of an association those with chunks; the number of the next.
    records: u64,
    records_acknowledged: u64,
    /// Bytes written to the connection by the session.
    written: u64,
    /// Part of `written` that the peer's kernel had acknowledged at the latest sample.
    arrived: u64,
    /// Bytes of payload in `outbox` and `sent`.
    in_flight: u64,
    /// Bytes of payload in records, since the channel began.
    payload: u64,
    /// Time of the latest acknowledgement by the peer's session.
    acknowledged_at: Instant,
    /// Position that the peer's kernel had reached within the chunks, and when it reached it.
    progress: (u64, Instant),
}

/// A chunk that was given to a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assigned {
    chunk: ChunkKey,
    length: u32,
    /// Another channel had the chunk before.
    copy: bool,
}

/// A chunk in flight on a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    chunk: ChunkKey,
    length: u32,
    copy: bool,
    /// Number of the record that carries the chunk.
    record: u64,
    /// Position of the chunk's last byte in the connection.
    end: u64,
    at: Instant,
}

/// The peer acknowledges records that were not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckOfUnsent;

impl Outbound {
    /// Begins behind the records that were exchanged before the session took over.
    pub(super) fn new(records: u64) -> Self {
        Self {
            ready: false,
            outbox: VecDeque::new(),
            sent: VecDeque::new(),
            records,
            records_acknowledged: records,
            written: 0,
            arrived: 0,
            in_flight: 0,
            payload: 0,
            acknowledged_at: Instant::ZERO,
            progress: (0, Instant::ZERO),
        }
    }

    /// Notes whether the kernel would send more at once.
    pub(crate) fn set_ready(&mut self, ready: bool) {
        self.ready = ready;
    }

    /// True if the kernel would send more at once.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready
    }

    /// True if no chunk waits for a record.
    pub(crate) fn is_free(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Takes a chunk in; `copy`: another channel has had it before.
    pub(crate) fn assign(&mut self, chunk: ChunkKey, length: usize, copy: bool) {
        self.in_flight += length as u64;
        self.outbox.push_back(Assigned {
            chunk,
            length: length as u32,
            copy,
        });
    }

    /// Takes out the chunk for the next record.
    pub(crate) fn take_assigned(&mut self) -> Option<Assigned> {
        self.outbox.pop_front()
    }

    /// Takes out all chunks that are not in a record yet.
    pub(crate) fn take_outbox(&mut self) -> impl Iterator<Item = ChunkKey> + '_ {
        let in_flight = &mut self.in_flight;
        self.outbox.drain(..).map(|assigned| {
            *in_flight = in_flight.saturating_sub(u64::from(assigned.length));
            assigned.chunk
        })
    }

    /// Drops chunks from the outbox that are not wanted any more. True if that empties it.
    pub(crate) fn drop_stale(&mut self, mut is_wanted: impl FnMut(ChunkKey) -> bool) -> bool {
        let before = self.outbox.len();
        let in_flight = &mut self.in_flight;
        self.outbox.retain(|assigned| {
            let wanted = is_wanted(assigned.chunk);
            if !wanted {
                *in_flight = in_flight.saturating_sub(u64::from(assigned.length));
            }
            wanted
        });
        self.outbox.is_empty() && before > 0
    }

    /// Notes a record of `wire` bytes that is about to be written. `counts`: the peer
    /// acknowledges it.
    pub(super) fn on_record(
        &mut self,
        now: Instant,
        wire: u64,
        chunk: Option<Assigned>,
        counts: bool,
    ) {
        self.written += wire;
        if let Some(assigned) = chunk {
            self.ready = false;
            self.payload += u64::from(assigned.length);
            self.sent.push_back(Sent {
                chunk: assigned.chunk,
                length: assigned.length,
                copy: assigned.copy,
                record: self.records,
                end: self.written,
                at: now,
            });
        }
        self.records += u64::from(counts);
    }

    /// Notes that the peer holds `records` records in all.
    pub(crate) fn on_ack(&mut self, now: Instant, records: u64) -> Result<(), AckOfUnsent> {
        if records > self.records {
            return Err(AckOfUnsent);
        }
        if records > self.records_acknowledged {
            self.acknowledged_at = now;
            self.records_acknowledged = records;
        }
        Ok(())
    }

    /// Takes out the next chunk that the peer has acknowledged.
    pub(crate) fn take_acknowledged(&mut self) -> Option<Sent> {
        let first = self.sent.front()?;
        if first.record >= self.records_acknowledged {
            return None;
        }
        self.in_flight = self.in_flight.saturating_sub(u64::from(first.length));
        self.sent.pop_front()
    }

    /// Notes the bytes that the peer's kernel has not acknowledged.
    pub(super) fn on_sample(&mut self, now: Instant, unacknowledged: ByteCount) {
        self.arrived = self.written.saturating_sub(unacknowledged.as_u64());
        // Heartbeats behind the last chunk are no progress of the chunks.
        let last = self.sent.back().map_or(u64::MAX, |sent| sent.end);
        let position = self.arrived.min(last);
        if position > self.progress.0 {
            self.progress = (position, now);
        }
    }

    /// Returns the chunks in flight, the oldest first.
    pub(crate) fn sent(&self) -> impl DoubleEndedIterator<Item = &Sent> + ExactSizeIterator {
        self.sent.iter()
    }

    /// Returns how many of the oldest chunks in flight the peer's kernel has.
    pub(crate) fn arrived_chunks(&self) -> usize {
        self.sent.partition_point(|sent| self.has_arrived(sent))
    }

    /// True if the peer's kernel has all of a chunk in flight.
    pub(crate) fn has_arrived(&self, sent: &Sent) -> bool {
        sent.end <= self.arrived
    }

    /// Returns all chunks that the channel has, those in the outbox first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = ChunkKey> + '_ {
        let outbox = self.outbox.iter().map(|assigned| assigned.chunk);
        outbox.chain(self.sent.iter().map(|sent| sent.chunk))
    }

    /// Returns the number of chunks that the channel has.
    pub(crate) fn chunk_count(&self) -> usize {
        self.outbox.len() + self.sent.len()
    }

    /// Returns the time when the oldest chunk was written that the peer's kernel does not have.
    pub(crate) fn oldest_in_flight(&self) -> Option<Instant> {
        self.sent.get(self.arrived_chunks()).map(|sent| sent.at)
    }

    /// Returns the time when the peer's session or its kernel last acknowledged something new.
    pub(crate) fn last_progress(&self) -> Instant {
        self.acknowledged_at.max(self.progress.1)
    }

    /// Returns the time without progress while a chunk is in flight.
    pub(crate) fn overdue(&self, now: Instant) -> Duration {
        let sent = self.sent.front().map(|sent| sent.at);
        sent.map_or(Duration::ZERO, |at| now.since(at.max(self.last_progress())))
    }

    /// Returns the bytes ahead of the end of a chunk in flight, its own included.
    pub(crate) fn bytes_up_to(&self, sent: &Sent) -> ByteCount {
        ByteCount::new(sent.end.saturating_sub(self.arrived))
    }

    /// Returns the bytes of payload that the peer's session has not acknowledged.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the bytes of payload sent since the channel began.
    pub(crate) fn payload(&self) -> u64 {
        self.payload
    }

    /// Returns the bytes written that the peer's kernel had at the latest sample.
    pub(crate) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Returns the bytes written that the peer's kernel had not acknowledged at the latest sample.
    pub(crate) fn not_arrived(&self) -> u64 {
        self.written - self.arrived
    }

    /// Returns the number of the next record.
    pub(crate) fn next_record(&self) -> u64 {
        self.records
    }

    /// Returns how many records the peer has not acknowledged.
    pub(super) fn unacknowledged_records(&self) -> u64 {
        self.records - self.records_acknowledged
    }

    /// Returns the bytes written to the connection.
    #[cfg(test)]
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Pretends that `records` records were sent.
    #[cfg(test)]
    pub(crate) fn set_records(&mut self, records: u64) {
        self.records = records;
    }
}

impl Assigned {
    /// Returns the chunk.
    pub(crate) fn chunk(&self) -> ChunkKey {
        self.chunk
    }

    /// Returns the bytes of the chunk's payload.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.length)
    }
}

impl Sent {
    /// Returns the chunk.
    pub(crate) fn chunk(&self) -> ChunkKey {
        self.chunk
    }

    /// Returns the bytes of the chunk's payload.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.length)
    }

    /// True if another channel had the chunk before.
    pub(crate) fn is_copy(&self) -> bool {
        self.copy
    }

    /// Returns the position of the chunk's last byte in the connection.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns the time when the chunk was written.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }
}
