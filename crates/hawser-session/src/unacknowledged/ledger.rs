use hawser_types::{SegmentNumber, StreamId};
use hawser_wire::{ChannelRole, ChunkHeader};
use slab::Slab;

use crate::Payload;

/// Every chunk that was cut and is not acknowledged yet. A chunk stays until the peer holds it,
/// whatever becomes of the channels that have it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    chunks: Slab<SentChunk>,
    next: SegmentNumber,
    bytes: u64,
}

/// A chunk that the peer has not acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct SentChunk {
    header: ChunkHeader,
    payload: Payload,
    length: usize,
    role: ChannelRole,
    /// Channels that have the chunk.
    copies: u32,
    /// Channels among these that are suspect.
    doubtful: u32,
}

/// Names a chunk; goes stale when the chunk is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkKey {
    index: usize,
    segment: SegmentNumber,
}

impl Ledger {
    /// Returns the number that the next chunk will have.
    pub(crate) fn next_segment(&self) -> SegmentNumber {
        self.next
    }

    /// Uses up the number of the next chunk.
    pub(crate) fn take_segment(&mut self) -> SegmentNumber {
        let segment = self.next;
        self.next = segment.next();
        segment
    }

    /// Enters a chunk.
    pub(crate) fn insert(&mut self, chunk: SentChunk) -> ChunkKey {
        self.bytes += chunk.length as u64;
        let segment = chunk.header.segment;
        ChunkKey {
            index: self.chunks.insert(chunk),
            segment,
        }
    }

    /// Returns a chunk that is not acknowledged.
    pub(crate) fn get(&self, key: ChunkKey) -> Option<&SentChunk> {
        self.chunks
            .get(key.index)
            .filter(|chunk| chunk.header.segment == key.segment)
    }

    /// Returns a chunk that is not acknowledged, to change it.
    pub(crate) fn get_mut(&mut self, key: ChunkKey) -> Option<&mut SentChunk> {
        self.chunks
            .get_mut(key.index)
            .filter(|chunk| chunk.header.segment == key.segment)
    }

    /// Takes out a chunk that the peer holds.
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

    /// Returns the bytes of payload that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if everything is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }
}

impl SentChunk {
    /// A chunk that no channel has yet.
    pub(crate) fn new(
        header: ChunkHeader,
        payload: Payload,
        length: usize,
        role: ChannelRole,
    ) -> Self {
        Self {
            header,
            payload,
            length,
            role,
            copies: 0,
            doubtful: 0,
        }
    }

    /// Returns its header.
    pub(crate) fn header(&self) -> &ChunkHeader {
        &self.header
    }

    /// Returns the stream that it belongs to.
    pub(crate) fn stream(&self) -> StreamId {
        self.header.stream
    }

    /// Returns its payload.
    pub(crate) fn payload(&self) -> &Payload {
        &self.payload
    }

    /// Returns the bytes of its payload.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the kind of channel that it belongs on.
    pub(crate) fn role(&self) -> ChannelRole {
        self.role
    }

    /// True if exactly one channel has it.
    pub(crate) fn is_single(&self) -> bool {
        self.copies == 1
    }

    /// True if no channel has it that is not suspect.
    pub(crate) fn is_on_suspects_only(&self) -> bool {
        self.doubtful >= self.copies
    }

    /// Notes that a channel has it from now on. True if another one has it already.
    pub(super) fn add_copy(&mut self, is_suspect: bool) -> bool {
        let is_copy = self.copies > 0;
        self.copies += 1;
        self.doubtful += u32::from(is_suspect);
        is_copy
    }

    /// Notes that a channel does not have it any more. True if no other one has it.
    pub(super) fn drop_copy(&mut self, was_suspect: bool) -> bool {
        self.copies = self.copies.saturating_sub(1);
        self.doubtful = self.doubtful.saturating_sub(u32::from(was_suspect));
        self.copies == 0
    }

    /// Notes that one of its channels became suspect.
    pub(super) fn doubt(&mut self) {
        self.doubtful += 1;
    }

    /// Notes that one of its channels is not suspect any more.
    pub(super) fn trust(&mut self) {
        self.doubtful = self.doubtful.saturating_sub(1);
    }
}

impl ChunkKey {
    /// Returns the number of the chunk.
    pub(crate) fn segment(&self) -> SegmentNumber {
        self.segment
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
        let chunk = SentChunk::new(header, Payload::new(), 9, ChannelRole::Bulk);
        ledger.insert(chunk)
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
