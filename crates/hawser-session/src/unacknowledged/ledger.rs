use std::collections::HashMap;

use hawser_types::{SegmentNumber, StreamId};
use hawser_wire::{ChannelRole, ChunkHeader};
use slab::Slab;

use crate::Payload;

/// Every chunk that was cut and is not acknowledged yet. A chunk stays until the peer holds it,
/// whatever becomes of the channels that have it.
///
/// The chunks of a stream are linked with each other, so that its end looks at no others.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    chunks: Slab<SentChunk>,
    /// Place of the chunk of each stream that was entered last.
    latest: HashMap<StreamId, usize>,
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
    /// Place of the chunk of the same stream that was entered before.
    before: Option<usize>,
    /// Place of the chunk of the same stream that was entered after.
    after: Option<usize>,
}

/// Names a chunk; goes stale when the chunk is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
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
    pub(crate) fn insert(&mut self, mut chunk: SentChunk) -> ChunkKey {
        self.bytes += chunk.length as u64;
        let (stream, segment) = (chunk.stream(), chunk.header.segment);
        let place = self.chunks.vacant_entry();
        let index = place.key();
        chunk.before = self.latest.insert(stream, index);
        let before = chunk.before;
        place.insert(chunk);
        if let Some(before) = before.and_then(|before| self.chunks.get_mut(before)) {
            before.after = Some(index);
        }
        ChunkKey { index, segment }
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

    /// Takes out a chunk that the peer holds, or that is not needed any more.
    pub(crate) fn remove(&mut self, key: ChunkKey) -> Option<SentChunk> {
        self.get(key)?;
        let chunk = self.chunks.remove(key.index);
        self.bytes -= chunk.length as u64;
        if let Some(before) = chunk.before.and_then(|before| self.chunks.get_mut(before)) {
            before.after = chunk.after;
        }
        match (chunk.before, chunk.after) {
            (before, Some(after)) => {
                if let Some(after) = self.chunks.get_mut(after) {
                    after.before = before;
                }
            }
            (Some(before), None) => {
                self.latest.insert(chunk.stream(), before);
            }
            (None, None) => {
                self.latest.remove(&chunk.stream());
            }
        }
        Some(chunk)
    }

    /// Returns the chunks of a stream, the one first that was entered last.
    pub(crate) fn of_stream(&self, stream: StreamId) -> impl Iterator<Item = ChunkKey> {
        let latest = self.latest.get(&stream).copied();
        let places = std::iter::successors(latest, |index| self.chunks.get(*index)?.before);
        places.filter_map(|index| {
            let segment = self.chunks.get(index)?.header.segment;
            Some(ChunkKey { index, segment })
        })
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
            before: None,
            after: None,
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

    /// Returns how many channels have it.
    pub(super) fn copies(&self) -> u32 {
        self.copies
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
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn insert(ledger: &mut Ledger, stream: u64) -> ChunkKey {
        let header = ChunkHeader {
            stream: StreamId::new(stream),
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
        let old = insert(&mut ledger, 2);
        assert!(ledger.remove(old).is_some());
        let new = insert(&mut ledger, 2);
        assert!(ledger.get(old).is_none() && ledger.get_mut(old).is_none());
        assert!(ledger.remove(old).is_none());
        assert_eq!(ledger.bytes(), 9);
        assert!(ledger.get(new).is_some());
    }

    proptest! {
        #[test]
        fn a_stream_has_the_chunks_that_were_entered_and_not_taken_out(
            ops in vec((0u64..4, any::<Option<Index>>()), 1..60),
        ) {
            let mut ledger = Ledger::default();
            let mut model: Vec<(u64, ChunkKey)> = Vec::new();
            for (stream, taken) in ops {
                match taken {
                    Some(taken) if !model.is_empty() => {
                        let (_, key) = model.remove(taken.index(model.len()));
                        prop_assert!(ledger.remove(key).is_some());
                    }
                    _ => model.push((stream, insert(&mut ledger, stream))),
                }
                for stream in 0..4 {
                    let expected = model.iter().rev().filter(|(of, _)| *of == stream);
                    let expected: Vec<_> = expected.map(|(_, key)| *key).collect();
                    let found: Vec<_> = ledger.of_stream(StreamId::new(stream)).collect();
                    prop_assert_eq!(found, expected);
                }
            }
            let streams: std::collections::BTreeSet<_> = model.iter().map(|(of, _)| of).collect();
            prop_assert_eq!(ledger.latest.len(), streams.len());
        }
    }
}
