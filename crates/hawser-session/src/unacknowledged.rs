//! Chunks that the peer has not acknowledged, and those among them that have to be sent again.

mod ledger;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use hawser_types::{SegmentNumber, StreamId};
use hawser_wire::{ChannelRole, ChunkHeader};
use ledger::Ledger;
pub(crate) use ledger::{ChunkKey, SentChunk};

use crate::Payload;
use crate::by_role::ByRole;

/// Chunks that the peer has not acknowledged.
///
/// A chunk is in the ledger from its cut until the peer holds it. It waits to be sent again, ahead
/// of everything new, when no channel has it any more or those that have it are doubtful.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    ledger: Ledger,
    /// Chunks to be sent again, by the kind of channel that they belong on.
    again: ByRole<BTreeMap<SegmentNumber, ChunkKey>>,
    /// Chunks whose streams ended early while channels had them, and how many channels are not
    /// done with each.
    dropped: HashMap<SegmentNumber, u32>,
}

/// Chunks of a stream that are dropped when it ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dropped {
    /// Every chunk.
    All,
    /// Every chunk but the opening one.
    AllButOpening,
}

impl Unacknowledged {
    /// Returns the number that the next chunk will have.
    pub(crate) fn next_segment(&self) -> SegmentNumber {
        self.ledger.next_segment()
    }

    /// Enters a chunk, and gives it the next segment number in place of the header's.
    pub(crate) fn insert(
        &mut self,
        mut header: ChunkHeader,
        payload: Payload,
        length: usize,
        role: ChannelRole,
    ) -> ChunkKey {
        header.segment = self.ledger.take_segment();
        let chunk = SentChunk::new(header, payload, length, role);
        self.ledger.insert(chunk)
    }

    /// Returns a chunk that is not acknowledged.
    pub(crate) fn get(&self, key: ChunkKey) -> Option<&SentChunk> {
        self.ledger.get(key)
    }

    /// True if the chunk is not acknowledged.
    pub(crate) fn contains(&self, key: ChunkKey) -> bool {
        self.ledger.get(key).is_some()
    }

    /// True if the chunk is not acknowledged, and exactly one channel has it.
    pub(crate) fn is_single(&self, key: ChunkKey) -> bool {
        self.ledger.get(key).is_some_and(SentChunk::is_single)
    }

    /// Returns the bytes of payload that are kept.
    pub(crate) fn bytes(&self) -> u64 {
        self.ledger.bytes()
    }

    /// True if everything is acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.ledger.is_empty()
    }

    /// Notes that a channel has a chunk from now on. Returns the chunk, and whether another channel
    /// has it already.
    pub(crate) fn assign(&mut self, key: ChunkKey, is_suspect: bool) -> Option<(&SentChunk, bool)> {
        let chunk = self.ledger.get_mut(key)?;
        let is_copy = chunk.add_copy(is_suspect);
        Some((chunk, is_copy))
    }

    /// Notes that a channel does not have a chunk any more, which is sent again if no other one has
    /// it.
    pub(crate) fn release(&mut self, key: ChunkKey, was_suspect: bool) {
        match self.ledger.get_mut(key) {
            None => _ = self.take_dropped(key),
            Some(chunk) => {
                if chunk.drop_copy(was_suspect) {
                    self.again[chunk.role()].insert(key.segment(), key);
                }
            }
        }
    }

    /// Notes that a channel with a chunk became suspect.
    pub(crate) fn doubt(&mut self, key: ChunkKey) {
        if let Some(chunk) = self.ledger.get_mut(key) {
            chunk.doubt();
        }
    }

    /// Notes that a channel with a chunk is not suspect any more. A copy that no other channel took
    /// yet is not needed.
    pub(crate) fn trust(&mut self, key: ChunkKey) {
        if let Some(chunk) = self.ledger.get_mut(key) {
            chunk.trust();
            self.again[chunk.role()].remove(&key.segment());
        }
    }

    /// Sends chunks again that only suspect channels have.
    pub(crate) fn copy_doubtful(&mut self, chunks: impl IntoIterator<Item = ChunkKey>) {
        for key in chunks {
            if let Some(chunk) = self.ledger.get(key)
                && chunk.is_on_suspects_only()
            {
                self.again[chunk.role()].insert(key.segment(), key);
            }
        }
    }

    /// Sends a chunk again over a channel for `role`.
    pub(crate) fn send_again(&mut self, key: ChunkKey, role: ChannelRole) {
        self.again[role].insert(key.segment(), key);
    }

    /// True if this chunk is to be sent again over a channel for `role`.
    pub(crate) fn waits_again(&self, key: ChunkKey, role: ChannelRole) -> bool {
        self.again[role].contains_key(&key.segment())
    }

    /// True if a chunk is to be sent again. It may be acknowledged meanwhile.
    pub(crate) fn has_again(&self, role: ChannelRole) -> bool {
        !self.again[role].is_empty()
    }

    /// Returns the next chunk that is to be sent again.
    pub(crate) fn next_again(&mut self, role: ChannelRole) -> Option<(ChunkKey, &SentChunk)> {
        let again = &mut self.again[role];
        while let Some(entry) = again.first_entry() {
            let key = *entry.get();
            if self.ledger.get(key).is_some() {
                break;
            }
            entry.remove();
        }
        let (_, key) = again.first_key_value()?;
        Some((*key, self.ledger.get(*key)?))
    }

    /// Takes a chunk out of those that are to be sent again. Returns the bytes of its payload.
    pub(crate) fn take_again(&mut self, key: ChunkKey, role: ChannelRole) -> Option<u64> {
        self.again[role].remove(&key.segment());
        Some(self.ledger.get(key)?.length() as u64)
    }

    /// Takes out a chunk that the peer holds. `None` if it has acknowledged the chunk before.
    pub(crate) fn on_held(&mut self, key: ChunkKey) -> Option<SentChunk> {
        self.ledger.remove(key)
    }

    /// Drops the chunks of a stream that `dropped` names, in flight or not. Returns how many it has
    /// left.
    pub(crate) fn drop_chunks(&mut self, stream: StreamId, dropped: Dropped) -> u64 {
        let is_spared =
            |chunk: &SentChunk| dropped == Dropped::AllButOpening && chunk.header().flags.open;
        let mut kept = 0;
        for key in self.ledger.of_stream(stream).collect::<Vec<_>>() {
            if self.ledger.get(key).is_some_and(is_spared) {
                kept += 1;
                continue;
            }
            let copies = self.ledger.remove(key).map_or(0, |chunk| chunk.copies());
            if copies > 0 {
                self.dropped.insert(key.segment(), copies);
            }
            for again in self.again.iter_mut() {
                again.remove(&key.segment());
            }
        }
        kept
    }

    /// Notes that a channel is done with a chunk that is not in the ledger. True if the chunk was
    /// dropped while the channel had it.
    pub(crate) fn take_dropped(&mut self, key: ChunkKey) -> bool {
        let Entry::Occupied(mut copies) = self.dropped.entry(key.segment()) else {
            return false;
        };
        *copies.get_mut() -= 1;
        if *copies.get() == 0 {
            copies.remove();
        }
        true
    }

    /// Returns the bytes of the chunks that are to be sent again.
    #[cfg(test)]
    pub(crate) fn bytes_again(&self, role: ChannelRole) -> usize {
        let keys = self.again[role].values();
        let chunks = keys.filter_map(|key| self.ledger.get(*key));
        chunks.map(SentChunk::length).sum()
    }
}
