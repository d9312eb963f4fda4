use std::collections::{BTreeSet, VecDeque};

use hawser_types::{ByteCount, Instant, PathId};
use hawser_wire::sctp::{Data, Framing, Tsn};
use smallvec::SmallVec;

use super::abandon::MessageId;
use crate::ranges::Ranges;

/// The compound congestion window: all chunks from the first that is not acknowledged cumulatively,
/// whichever path they went over. It slides as SCTP's does, and only then are buffers released.
///
/// Chunks are named by how many were sent before them, which unlike the TSN never wraps.
/// Source: SCTP aggregation §3.3, table 2.
#[derive(Debug)]
pub(super) struct Window {
    framing: Framing,
    records: VecDeque<Record>,
    /// The name of the first record.
    first: u64,
    initial: Tsn,
    /// What is acknowledged beyond the first hole.
    acknowledged: Ranges,
    /// Failed, or to be copied.
    again: BTreeSet<u64>,
    /// Payload of all records, and of those under way.
    bytes: u64,
    under_way: u64,
    /// Payload that was sent again, or over two paths, each time counting.
    repeated: u64,
}

/// One chunk that was sent.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) data: Data,
    /// Bytes in a packet: header, payload, padding.
    size: u32,
    pub(super) status: Status,
    /// Where it is under way now: mostly one place, more after a probe or a copy.
    pub(super) places: SmallVec<[Place; 2]>,
    /// Where it was lost, oldest first; bounded.
    pub(super) failed: SmallVec<[Place; 2]>,
    /// When it was, last.
    pub(super) failed_at: Instant,
    /// How often it was sent.
    pub(super) transmissions: u32,
    /// The message, where that may be given up.
    pub(super) message: Option<MessageId>,
    /// SACKs that reported it missing, where these are counted.
    pub(super) reports: u32,
    /// It went out though the peer had no room for it: its loss says nothing of the path.
    pub(super) window_probe: bool,
    /// It was sent over two paths from the beginning.
    pub(super) twin: bool,
    /// A copy of it was sent, since another path would bring it sooner.
    pub(super) copied: bool,
}

/// Source: SCTP aggregation §3.3, table 2; the last one for messages that were given up (RFC 3758).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Under way.
    Wait,
    /// Acknowledged by a gap block.
    Ack,
    /// Lost, and to be sent again.
    Fail,
    /// Given up.
    Abandoned,
}

/// A packet of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
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
            acknowledged: Ranges::default(),
            again: BTreeSet::new(),
            bytes: 0,
            under_way: 0,
            repeated: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// How many chunks it holds.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The name of the first chunk, and of the one that will be added next.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    /// Payload of everything in it.
    pub(super) fn bytes(&self) -> ByteCount {
        ByteCount::new(self.bytes)
    }

    /// Payload that was sent again, or over two paths, each time counting.
    pub(super) fn repeated(&self) -> ByteCount {
        ByteCount::new(self.repeated)
    }

    /// Payload that is neither acknowledged nor lost.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way
    }

    pub(super) fn tsn(&self, chunk: u64) -> Tsn {
        // TSNs wrap where the names do not.
        self.initial.advance(chunk as u32)
    }

    /// The last TSN that is acknowledged cumulatively.
    pub(super) fn cumulative(&self) -> Tsn {
        self.tsn(self.first.wrapping_sub(1))
    }

    pub(super) fn get(&self, chunk: u64) -> Option<&Record> {
        let place = chunk.checked_sub(self.first)?;
        self.records.get(place as usize)
    }

    pub(super) fn get_mut(&mut self, chunk: u64) -> Option<&mut Record> {
        let place = chunk.checked_sub(self.first)?;
        self.records.get_mut(place as usize)
    }

    /// Adds a chunk that is about to be sent for the first time, and gives it its TSN.
    pub(super) fn push(&mut self, mut data: Data, message: Option<MessageId>) -> u64 {
        let chunk = self.end();
        data.tsn = self.tsn(chunk);
        self.bytes += data.payload.len() as u64;
        self.records.push_back(Record {
            size: self.framing.chunk_length(&data) as u32,
            data,
            status: Status::Fail,
            places: SmallVec::new(),
            failed: SmallVec::new(),
            failed_at: Instant::ZERO,
            transmissions: 0,
            reports: 0,
            message,
            window_probe: false,
            twin: false,
            copied: false,
        });
        chunk
    }

    /// The chunk leaves in this packet.
    pub(super) fn on_sent(&mut self, chunk: u64, place: Place) {
        self.again.remove(&chunk);
        let Some(record) = self.get_mut(chunk) else {
            return;
        };
        let again = match record.transmissions {
            0 => 0,
            _ => record.data.payload.len() as u64,
        };
        record.transmissions += 1;
        record.places.push(place);
        if record.status == Status::Fail {
            self.set_status(chunk, Status::Wait);
        }
        self.repeated += again;
    }

    /// What leaves is a copy.
    pub(super) fn on_copied(&mut self, chunk: u64, twin: bool) {
        if let Some(record) = self.get_mut(chunk) {
            record.copied = true;
            record.twin = twin;
        }
    }

    /// Changes a chunk's status, and books what that changes.
    pub(super) fn set_status(&mut self, chunk: u64, status: Status) {
        let Some(record) = self.get_mut(chunk) else {
            return;
        };
        let length = record.data.payload.len() as u64;
        let before = std::mem::replace(&mut record.status, status);
        if before == Status::Wait {
            self.under_way -= length;
        }
        if status == Status::Wait {
            self.under_way += length;
        }
        if status == Status::Fail {
            self.again.insert(chunk);
        } else {
            self.again.remove(&chunk);
        }
    }

    /// A packet with the chunk is lost; whether it was under way there alone and has failed.
    pub(super) fn on_lost(&mut self, now: Instant, chunk: u64, place: Place) -> bool {
        let Some(record) = self.get_mut(chunk) else {
            return false;
        };
        let before = record.places.len();
        record.places.retain(|known| *known != place);
        if record.places.len() == before {
            return false;
        }
        record.failed_at = now;
        if !record.window_probe {
            if record.failed.len() == MAX_FAILED {
                record.failed.remove(0);
            }
            record.failed.push(place);
        }
        let failed = record.places.is_empty() && record.status == Status::Wait;
        if failed {
            self.set_status(chunk, Status::Fail);
        }
        failed
    }

    /// Marks a run of chunks as acknowledged beyond a hole; gives out those that were not yet.
    pub(super) fn acknowledge(&mut self, run: std::ops::Range<u64>, fresh: &mut Vec<u64>) {
        self.acknowledged.insert(run, |run| fresh.extend(run));
    }

    /// The last chunk that is acknowledged beyond a hole.
    pub(super) fn last_acknowledged(&self) -> Option<u64> {
        self.acknowledged.iter().last().map(|run| run.end - 1)
    }

    /// Slides: everything before `first` is acknowledged, and its buffers are released.
    pub(super) fn slide(&mut self, first: u64) {
        while self.first < first {
            self.set_status(self.first, Status::Ack);
            let Some(record) = self.records.pop_front() else {
                break;
            };
            self.bytes -= record.data.payload.len() as u64;
            self.first += 1;
        }
        self.acknowledged.trim(self.first);
    }

    /// The peer has dropped what it had acknowledged beyond the first hole, but for `held`: the
    /// rest has to be sent again.
    pub(super) fn renege(&mut self, held: &[std::ops::Range<u64>]) {
        let before = std::mem::take(&mut self.acknowledged);
        for run in held {
            self.acknowledged.insert(run.clone(), |_| ());
        }
        let (mut known, mut dropped) = (self.acknowledged.clone(), Vec::new());
        for run in before.iter() {
            known.insert(run.clone(), |run| dropped.extend(run));
        }
        for chunk in dropped {
            if self.get(chunk).is_some_and(|it| it.status == Status::Ack) {
                self.set_status(chunk, Status::Fail);
            }
        }
    }

    /// What is to be sent again, lowest TSN first.
    pub(super) fn again(&self) -> impl Iterator<Item = u64> {
        self.again.iter().copied()
    }

    pub(super) fn has_again(&self) -> bool {
        !self.again.is_empty()
    }

    /// Names of all chunks.
    pub(super) fn chunks(&self) -> std::ops::Range<u64> {
        self.first..self.end()
    }
}

impl Record {
    /// Bytes in a packet: header, payload, padding.
    pub(super) fn size(&self) -> u64 {
        self.size.into()
    }

    /// Whether this path has lost it.
    pub(super) fn failed_on(&self, path: PathId) -> bool {
        self.failed.iter().any(|place| place.path == path)
    }
}

/// A chunk that so many transmissions have lost is remembered for the latest ones.
const MAX_FAILED: usize = 8;
