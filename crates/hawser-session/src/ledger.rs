use hawser_types::SegmentNumber;
use hawser_wire::{ChannelRole, ChunkHeader};
use slab::Slab;

use crate::Payload;

/// Every chunk that was cut and is not acknowledged yet. A chunk stays until the peer holds it,
/// whatever becomes of the channels that carry it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    chunks: Slab<SentChunk>,
    next: SegmentNumber,
    bytes: u64,
}

/// A chunk on its way.
#[derive(Clone, Debug)]
pub(crate) struct SentChunk {
    pub(crate) header: ChunkHeader,
    pub(crate) payload: Payload,
    pub(crate) length: usize,
    pub(crate) role: ChannelRole,
    /// On how many channels it is assigned or in flight.
    pub(crate) copies: u32,
    /// How many of these are on channels that are suspect.
    pub(crate) doubtful: u32,
}

/// Names a chunk; goes stale when the chunk is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    index: usize,
    pub(crate) segment: SegmentNumber,
}

impl Ledger {
    /// The number that the next chunk will have.
    pub(crate) fn next_segment(&self) -> SegmentNumber {
        self.next
    }

    /// Uses up the number of the next chunk.
    pub(crate) fn take_segment(&mut self) -> SegmentNumber {
        let segment = self.next;
        self.next = segment.next();
        segment
    }

    pub(crate) fn insert(&mut self, chunk: SentChunk) -> ChunkKey {
        self.bytes += chunk.length as u64;
        let segment = chunk.header.segment;
        ChunkKey {
            index: self.chunks.insert(chunk),
            segment,
        }
    }

    pub(crate) fn get(&self, key: ChunkKey) -> Option<&SentChunk> {
        self.chunks
            .get(key.index)
            .filter(|chunk| chunk.header.segment == key.segment)
    }

    pub(crate) fn get_mut(&mut self, key: ChunkKey) -> Option<&mut SentChunk> {
        self.chunks
            .get_mut(key.index)
            .filter(|chunk| chunk.header.segment == key.segment)
    }

    pub(crate) fn remove(&mut self, key: ChunkKey) -> Option<SentChunk> {
        self.get(key)?;
        let chunk = self.chunks.remove(key.index);
        self.bytes -= chunk.length as u64;
        Some(chunk)
    }

    /// Drops every chunk that `is_wanted` does not pick.
    pub(crate) fn retain(&mut self, mut is_wanted: impl FnMut(&SentChunk) -> bool) {
        let bytes = &mut self.bytes;
        self.chunks.retain(|_, chunk| {
            let wanted = is_wanted(chunk);
            if !wanted {
                *bytes -= chunk.length as u64;
            }
            wanted
        });
    }

    /// Bytes of payload that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use hawser_types::{StreamId, StreamOffset};
    use hawser_wire::ChunkFlags;

    use super::*;

    fn insert(ledger: &mut Ledger) -> ChunkKey {
        let header = ChunkHeader {
            stream: StreamId::new(2),
            segment: ledger.take_segment(),
            offset: StreamOffset::new(0),
            flags: ChunkFlags::default(),
            metadata: Bytes::new(),
        };
        let role = ChannelRole::Bulk;
        ledger.insert(SentChunk {
            header,
            payload: Payload::new(),
            length: 9,
            role,
            copies: 0,
            doubtful: 0,
        })
    }

    #[test]
    fn a_key_goes_stale_even_when_its_place_is_taken_again() {
        let mut ledger = Ledger::default();
        let old = insert(&mut ledger);
        assert!(ledger.remove(old).is_some());
        let new = insert(&mut ledger);
        assert!(ledger.get(old).is_none() && ledger.get_mut(old).is_none());
        assert!(ledger.remove(old).is_none());
        assert_eq!(ledger.bytes(), 9);
        assert!(ledger.get(new).is_some());
    }
}
