use std::collections::{BTreeSet, VecDeque};

use hawser_types::{ByteCount, Instant, PathId, RangeSet, StreamId};
use hawser_wire::sctp::{Data, Framing, Tsn};
use smallvec::SmallVec;

use super::message::MessageId;
use super::placed::{Front, PlacedMessage};

/// The compound congestion window: all chunks from the first one not cumulatively acknowledged,
/// over all paths. It moves as SCTP's does, and only then are buffers released.
///
/// A chunk's number counts the chunks sent before it; unlike the TSN it never wraps. Source: SCTP
/// aggregation §3.3, table 2.
#[derive(Debug)]
pub(super) struct Window {
    framing: Framing,
    records: VecDeque<Record>,
    /// Number of the first record.
    first: u64,
    initial: Tsn,
    /// Chunks acknowledged beyond the first hole.
    acknowledged: RangeSet,
    /// Chunks to be sent again.
    to_retransmit: BTreeSet<u64>,
    /// Payload of all records.
    bytes: u64,
    /// Payload in flight.
    bytes_in_flight: u64,
    /// Payload of all retransmissions and copies.
    repeated: u64,
    /// Part of it that was in flight already: copies.
    copied: u64,
}

/// One chunk that was sent.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) data: Data,
    /// First bytes of the payload, kept apart from the rest.
    pub(super) front: Front,
    /// Size in a packet: header, payload, padding.
    size: u32,
    pub(super) status: Status,
    /// Packets in flight that carry it: mostly one, more after a probe or a copy.
    pub(super) in_flight: SmallVec<[Transmission; 2]>,
    /// Lost packets that carried it, oldest first; bounded.
    pub(super) failed: SmallVec<[Transmission; 2]>,
    /// Time of the last loss.
    pub(super) failed_at: Instant,
    /// Number of transmissions.
    pub(super) send_count: u32,
    /// Its message, if that may be abandoned.
    pub(super) message: Option<MessageId>,
    /// The owner's stream that it belongs to.
    pub(super) owner_stream: Option<StreamId>,
    /// Number of SACKs that reported it missing, where these are counted.
    pub(super) reports: u32,
    /// It was sent into a closed window: its loss does not count against the path.
    pub(super) window_probe: bool,
    /// It was duplicated from the beginning.
    pub(super) is_duplicated: bool,
    /// A copy of it was sent over another path.
    pub(super) copied: bool,
    /// The owner has chosen its path, and it is sent once.
    pub(super) is_placed: bool,
    /// Its owner has it back, although it is in flight.
    pub(super) is_returned: bool,
}

/// Status of a chunk. Source: SCTP aggregation §3.3, table 2; the last one for abandoned messages
/// (RFC 3758).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// In flight.
    Wait,
    /// Acknowledged by a gap block.
    Ack,
    /// Lost, and to be sent again.
    Fail,
    /// Abandoned.
    Abandoned,
}

/// A packet on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transmission {
    pub(super) path: PathId,
    pub(super) packet: u64,
}

impl Window {
    pub(super) fn new(initial: Tsn, framing: Framing) -> Self {
        Self {
            framing,
            records: VecDeque::new(),
            first: 0,
            initial,
            acknowledged: RangeSet::new(),
            to_retransmit: BTreeSet::new(),
            bytes: 0,
            bytes_in_flight: 0,
            repeated: 0,
            copied: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of chunks in the window.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns the number of the first chunk.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next chunk.
    pub(super) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Returns the payload of all chunks in the window.
    pub(super) fn bytes(&self) -> ByteCount {
        ByteCount::new(self.bytes)
    }

    /// Returns the payload of all retransmissions and copies.
    pub(super) fn repeated(&self) -> ByteCount {
        ByteCount::new(self.repeated)
    }

    /// Returns the payload of all copies of chunks that were in flight.
    pub(super) fn copied(&self) -> ByteCount {
        ByteCount::new(self.copied)
    }

    /// Returns the payload in flight.
    pub(super) fn bytes_in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    pub(super) fn tsn(&self, chunk: u64) -> Tsn {
        // TSNs wrap, chunk numbers do not.
        self.initial.advance(chunk as u32)
    }

    /// Returns the last TSN acknowledged cumulatively.
    pub(super) fn cumulative(&self) -> Tsn {
        self.tsn(self.first.wrapping_sub(1))
    }

    pub(super) fn get(&self, chunk: u64) -> Option<&Record> {
        let index = chunk.checked_sub(self.first)?;
        self.records.get(index as usize)
    }

    pub(super) fn get_mut(&mut self, chunk: u64) -> Option<&mut Record> {
        let index = chunk.checked_sub(self.first)?;
        self.records.get_mut(index as usize)
    }

    /// Adds a chunk that is about to be sent for the first time, and assigns its TSN.
    pub(super) fn push(&mut self, data: Data, message: Option<MessageId>) -> u64 {
        self.push_behind(Front::new(), data, message)
    }

    fn push_behind(&mut self, front: Front, mut data: Data, message: Option<MessageId>) -> u64 {
        let chunk = self.end();
        data.tsn = self.tsn(chunk);
        self.bytes += (front.len() + data.payload.len()) as u64;
        self.records.push_back(Record {
            size: self.framing.chunk_length_behind(front.len(), &data) as u32,
            data,
            front,
            status: Status::Fail,
            in_flight: SmallVec::new(),
            failed: SmallVec::new(),
            failed_at: Instant::ZERO,
            send_count: 0,
            reports: 0,
            message,
            owner_stream: None,
            window_probe: false,
            is_duplicated: false,
            copied: false,
            is_placed: false,
            is_returned: false,
        });
        chunk
    }

    /// Adds a chunk that is about to be sent over the path that the owner has chosen.
    pub(super) fn push_placed(&mut self, front: Front, data: Data) -> u64 {
        let chunk = self.push_behind(front, data, None);
        if let Some(record) = self.get_mut(chunk) {
            record.is_placed = true;
        }
        chunk
    }

    /// Returns a placed chunk that is in flight, once, for the owner to place it again. `None` for
    /// a part of a message.
    pub(super) fn give_back(&mut self, chunk: u64) -> Option<PlacedMessage> {
        let record = self.get_mut(chunk).filter(|record| {
            let is_open = record.is_placed && record.status == Status::Wait;
            is_open && !record.is_returned && record.data.first && record.data.last
        })?;
        record.is_returned = true;
        Some(PlacedMessage {
            front: record.front.clone(),
            payload: record.data.payload.clone(),
        })
    }

    /// Ends a placed chunk: it has arrived, or is given up. Returns its payload where that is a
    /// whole message; the window does not need it any more.
    pub(super) fn end_placed(&mut self, chunk: u64, status: Status) -> Option<PlacedMessage> {
        self.set_status(chunk, status);
        let record = self.get_mut(chunk)?;
        let length = record.length();
        let message = PlacedMessage {
            front: std::mem::take(&mut record.front),
            payload: std::mem::take(&mut record.data.payload),
        };
        let is_whole = record.data.first && record.data.last;
        self.bytes -= length;
        is_whole.then_some(message)
    }

    /// Records that the chunk leaves in this packet.
    pub(super) fn on_sent(&mut self, chunk: u64, transmission: Transmission) {
        self.to_retransmit.remove(&chunk);
        let Some(record) = self.get_mut(chunk) else {
            return;
        };
        let again = match record.send_count {
            0 => 0,
            _ => record.length(),
        };
        record.send_count += 1;
        record.in_flight.push(transmission);
        if record.status == Status::Fail {
            self.set_status(chunk, Status::Wait);
        }
        self.repeated += again;
    }

    /// Records that the transmission is a copy.
    pub(super) fn on_copied(&mut self, chunk: u64, is_duplicate: bool) {
        let Some(record) = self.get_mut(chunk) else {
            return;
        };
        // One on the same path does not help if that path has failed.
        let first = record.in_flight.first().map(|it| it.path);
        record.copied |= record.in_flight.iter().any(|it| Some(it.path) != first);
        record.is_duplicated = is_duplicate;
        self.copied += record.length();
    }

    /// Changes a chunk's status and the counts that depend on it.
    pub(super) fn set_status(&mut self, chunk: u64, status: Status) {
        let Some(record) = self.get_mut(chunk) else {
            return;
        };
        let length = record.length();
        let before = std::mem::replace(&mut record.status, status);
        if before == Status::Wait {
            self.bytes_in_flight -= length;
        }
        if status == Status::Wait {
            self.bytes_in_flight += length;
        }
        if status == Status::Fail {
            self.to_retransmit.insert(chunk);
        } else {
            self.to_retransmit.remove(&chunk);
        }
    }

    /// Records the loss of a packet with the chunk; returns whether the chunk has failed, since no
    /// other packet in flight carries it.
    pub(super) fn on_lost(&mut self, now: Instant, chunk: u64, transmission: Transmission) -> bool {
        let Some(record) = self.get_mut(chunk) else {
            return false;
        };
        let before = record.in_flight.len();
        record.in_flight.retain(|known| *known != transmission);
        if record.in_flight.len() == before {
            return false;
        }
        record.failed_at = now;
        if !record.window_probe {
            if record.failed.len() == MAX_FAILED {
                record.failed.remove(0);
            }
            record.failed.push(transmission);
        }
        let failed = record.in_flight.is_empty() && record.status == Status::Wait;
        if failed {
            self.set_status(chunk, Status::Fail);
        }
        failed
    }

    /// Takes back the loss of a packet with the chunk: it may still arrive. Returns the chunk's
    /// size, if it is waited for.
    pub(super) fn on_not_lost(&mut self, chunk: u64, transmission: Transmission) -> Option<u64> {
        let record = self.get_mut(chunk)?;
        let place = record.failed.iter().position(|it| *it == transmission)?;
        if record.is_placed || !matches!(record.status, Status::Wait | Status::Fail) {
            return None;
        }
        record.failed.remove(place);
        // The oldest first.
        let later =
            |it: &Transmission| it.path == transmission.path && it.packet > transmission.packet;
        let place = record.in_flight.iter().position(later);
        record
            .in_flight
            .insert(place.unwrap_or(record.in_flight.len()), transmission);
        let size = record.size();
        self.set_status(chunk, Status::Wait);
        Some(size)
    }

    /// Marks a run of chunks as acknowledged beyond a hole; appends the new ones to `fresh`.
    pub(super) fn acknowledge(&mut self, run: std::ops::Range<u64>, fresh: &mut Vec<u64>) {
        self.acknowledged.insert_with(run, |run| fresh.extend(run));
    }

    /// Returns the last chunk acknowledged beyond a hole.
    pub(super) fn last_acknowledged(&self) -> Option<u64> {
        self.acknowledged.end().checked_sub(1)
    }

    /// Moves the window: everything before `first` is acknowledged and released.
    pub(super) fn slide(&mut self, first: u64) {
        while self.first < first {
            self.set_status(self.first, Status::Ack);
            let Some(record) = self.records.pop_front() else {
                break;
            };
            self.bytes -= record.length();
            self.first += 1;
        }
        self.acknowledged.remove_below(self.first);
    }

    /// Handles reneging: chunks acknowledged beyond the first hole and not in `held` have to be
    /// sent again.
    pub(super) fn renege(&mut self, held: &[std::ops::Range<u64>]) {
        let before = std::mem::take(&mut self.acknowledged);
        self.acknowledged.extend(held.iter().cloned());
        let (mut known, mut dropped) = (self.acknowledged.clone(), Vec::new());
        for run in before.iter() {
            known.insert_with(run, |run| dropped.extend(run));
        }
        for chunk in dropped {
            if self.get(chunk).is_some_and(|it| it.status == Status::Ack) {
                self.set_status(chunk, Status::Fail);
            }
        }
    }

    /// Returns the chunks to be sent again, lowest TSN first.
    pub(super) fn to_retransmit(&self) -> impl Iterator<Item = u64> {
        self.to_retransmit.iter().copied()
    }

    pub(super) fn has_retransmissions(&self) -> bool {
        !self.to_retransmit.is_empty()
    }

    /// Returns the numbers of all chunks.
    pub(super) fn chunks(&self) -> std::ops::Range<u64> {
        self.first..self.end()
    }
}

impl Record {
    /// Returns the size in a packet: header, payload, padding.
    pub(super) fn size(&self) -> u64 {
        self.size.into()
    }

    /// Returns the length of the payload.
    pub(super) fn length(&self) -> u64 {
        (self.front.len() + self.data.payload.len()) as u64
    }

    /// Tells whether the chunk was sent before, and whether over this path; packets of long ago
    /// may be forgotten.
    pub(super) fn was_sent(&self, path: PathId) -> (bool, bool) {
        let mut in_flight = self.in_flight.iter();
        let here = self.failed_on(path) || in_flight.any(|it| it.path == path);
        (self.send_count > 0, here)
    }

    /// Tells whether this path has lost the chunk.
    pub(super) fn failed_on(&self, path: PathId) -> bool {
        self.failed
            .iter()
            .any(|transmission| transmission.path == path)
    }
}

/// Maximum number of lost packets remembered for a chunk.
const MAX_FAILED: usize = 8;
/// Number of chunks examined for one that a path can take.
pub(super) const LOOK_AHEAD: usize = 32;
